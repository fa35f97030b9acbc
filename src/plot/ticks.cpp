#include "tril/plot/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tril {
namespace {

/// Drops the zeros that "%.4f" leaves behind: "1.50" -> "1.5".
std::string without_trailing_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string scientific(double value) {
  const std::string text = fmt::format("{:.2e}", value);  // "3.00e-04"
  const auto e = text.find('e');
  return without_trailing_zeros(text.substr(0, e)) +
         fmt::format("e{}", std::stoi(text.substr(e + 1)));
}

}  // namespace

AxisRange range_of(const std::vector<double>& values, bool log) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double v : values) {
    if (!std::isfinite(v) || (log && v <= 0)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  if (low > high) return log ? AxisRange{1, 10} : AxisRange{0, 1};
  if (log) return high / low > 1.0001 ? AxisRange{low, high} : AxisRange{low / 1.5, high * 1.5};
  const double room = std::max(std::abs(high), std::abs(low)) * 1e-6;
  if (high - low > room) return {low, high};
  const double margin = std::max(std::abs(low) / 10, 1e-9);
  return {low - margin, high + margin};
}

std::vector<double> linear_ticks(AxisRange range, int wanted) {
  const double raw = (range.high - range.low) / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(range.low / step - 1e-9);
  for (double i = first; i * step <= range.high + step * 1e-9 && ticks.size() < 100; ++i) {
    ticks.push_back(i == 0 ? 0.0 : i * step);
  }
  return ticks;
}

std::vector<double> log_ticks(AxisRange range, int wanted) {
  // The densest of these sets of mantissas that is not too dense.
  static constexpr std::array<std::array<double, 9>, 4> kMantissas{
      {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1}}};
  const int first = static_cast<int>(std::floor(std::log10(range.low)));
  const int last = static_cast<int>(std::floor(std::log10(range.high)));
  std::vector<double> ticks;
  for (const auto& mantissas : kMantissas) {
    ticks.clear();
    for (int e = first; e <= last; ++e) {
      for (const double m : mantissas) {
        const double value = m * std::pow(10.0, e);
        const bool inside = value >= range.low * 0.9999 && value <= range.high * 1.0001;
        if (m > 0 && inside) ticks.push_back(value);
      }
    }
    if (static_cast<int>(ticks.size()) <= wanted + 2) break;
  }
  if (static_cast<int>(ticks.size()) > wanted + 2) {  // many decades: every n-th
    const size_t stride = ticks.size() / static_cast<size_t>(std::max(wanted, 1)) + 1;
    std::vector<double> fewer;
    for (size_t i = 0; i < ticks.size(); i += stride) fewer.push_back(ticks[i]);
    ticks = std::move(fewer);
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(range, wanted);
}

std::string format_tick(double value, double step) {
  if (value == 0 || !std::isfinite(value)) return value == 0 ? "0" : fmt::format("{}", value);
  const double size = std::abs(value);
  static constexpr std::array<std::pair<double, const char*>, 3> kUnits{
      {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, name] : kUnits) {
    if (size < unit || size < 10000) continue;
    return without_trailing_zeros(fmt::format("{:.2f}", value / unit)) + name;
  }
  if (size < 1e-3) return scientific(value);
  const double finest = step > 0 ? step : size;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(finest))) + 1, 0, 6);
  return without_trailing_zeros(fmt::format("{:.{}f}", value, decimals));
}

}  // namespace tril
