#pragma once
// Where the marks of an axis stand, and how their numbers are written.

#include <string>
#include <vector>

namespace tril {

/// The ends of an axis: low < high, both finite.
struct AxisRange {
  double low = 0;
  double high = 1;
};

/// A range that holds all finite values (with `log`, only those above 0), never empty: one value
/// alone gets some room around it, no value gives [0, 1] or, with `log`, [1, 10].
AxisRange range_of(const std::vector<double>& values, bool log = false);

/// About `wanted` round numbers (1, 2 or 5 times a power of ten) inside the range.
std::vector<double> linear_ticks(AxisRange range, int wanted);

/// Round numbers inside a range above 0, evenly spread on a logarithmic axis.
std::vector<double> log_ticks(AxisRange range, int wanted);

/// A tick as a person writes it: "0.25", "1.5k", "20M", "3e-4". `step` is the distance to the
/// neighbouring tick; 0: unknown.
std::string format_tick(double value, double step = 0);

}  // namespace tril
