#include "tril/interop/foreign_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tril/base/error.h"
#include "tril/base/utf8.h"
#include "tril/optim/parameters.h"

namespace tril {
namespace {

bool is_vocabulary(const std::string& name) {
  return name == "token_embedding.weight" || name.starts_with("lm_head.");
}

/// Rows of a parameter that stand for real ids.
torch::Tensor without_padding(const std::string& name, const torch::Tensor& t, int64_t vocab_size) {
  return is_vocabulary(name) ? t.narrow(0, 0, vocab_size) : t;
}

/// Rows of each head from halves (0, 1, ..., D-1) to pairs (0, D/2, 1, D/2 + 1, ...).
torch::Tensor pair_rows(const torch::Tensor& t, int64_t head_size) {
  return t.unflatten(0, {-1, 2, head_size / 2}).transpose(1, 2).flatten(0, 2);
}

torch::ScalarType scalar_type(const ForeignTensors::Entry& entry) {
  if (entry.dtype == "F32") return torch::kFloat32;
  if (entry.dtype == "F16") return torch::kFloat16;
  if (entry.dtype == "BF16") return torch::kBFloat16;
  if (entry.dtype == "F64") return torch::kFloat64;
  throw CheckpointError(
      fmt::format("{}: its values are of type {}; tril reads F32, F16, BF16 and F64",
                  escape_for_message(entry.given),
                  entry.dtype));
}

[[noreturn]] void refuse(const std::string& origin, std::vector<std::string> problems) {
  constexpr size_t kShown = 20;
  const size_t total = problems.size();
  if (total > kShown) problems.resize(kShown);
  throw CheckpointError(fmt::format("{}: {} tensors do not fit:\n  {}{}",
                                    origin,
                                    total,
                                    fmt::join(problems, "\n  "),
                                    total > kShown ? "\n  ..." : ""));
}

void check_names(const std::vector<TensorRule>& rules,
                 Naming naming,
                 const ForeignTensors& tensors,
                 const std::string& origin) {
  std::vector<std::string> problems;
  std::set<std::string_view> wanted;
  for (const TensorRule& rule : rules) {
    wanted.insert(rule.foreign);
    if (tensors.find(rule.foreign) == nullptr) problems.push_back("missing: " + rule.foreign);
  }
  for (const auto& [name, entry] : tensors.entries()) {
    if (wanted.contains(name) || is_foreign_buffer(naming, name)) continue;
    problems.push_back(
        fmt::format("unknown: {} {}", escape_for_message(entry.given), shape_text(entry.shape)));
  }
  if (!problems.empty()) refuse(origin, std::move(problems));
}

}  // namespace

void ForeignTensors::add(Entry entry, std::shared_ptr<const void> owner) {
  int64_t n = 1;
  for (const int64_t size : entry.shape) n *= size;
  element_count_ += n;
  if (owners_.empty() || owners_.back() != owner) owners_.push_back(std::move(owner));
  const std::string given = entry.given;
  const auto [place, inserted] = entries_.emplace(entry.name, std::move(entry));
  if (!inserted) {
    throw CheckpointError(fmt::format("the tensor {} is there twice: as \"{}\" and as \"{}\"",
                                      escape_for_message(place->first),
                                      escape_for_message(place->second.given),
                                      escape_for_message(given)));
  }
}

void ForeignTensors::add_file(const std::filesystem::path& path) {
  auto file = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path));
  for (const auto& [key, value] : file->metadata()) metadata_[key] = value;
  for (const TensorInfo& info : file->tensors()) {
    add({std::string(without_prefix(info.name)),
         info.name,
         info.dtype,
         info.shape,
         file->data(info)},
        file);
  }
}

const ForeignTensors::Entry* ForeignTensors::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

torch::Tensor ForeignTensors::read(const Entry& entry) {
  torch::Tensor values = torch::empty(entry.shape, scalar_type(entry));
  if (!entry.data.empty()) {
    std::memcpy(values.mutable_data_ptr(), entry.data.data(), entry.data.size());
  }
  return values.to(torch::kFloat32);
}

bool ForeignTensors::equal(const Entry& a, const Entry& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) {
    return a.data.size() == b.data.size() &&
           std::equal(a.data.begin(), a.data.end(), b.data.begin());
  }
  return read(a).equal(read(b));
}

GPT build_model(const ModelConfig& config,
                Naming naming,
                const ForeignTensors& tensors,
                const std::string& origin) {
  const auto rules = tensor_rules(naming, config);
  check_names(rules, naming, tensors, origin);
  // Before any memory is taken: a config may claim any size.
  if (parameter_count(config) > tensors.element_count()) {
    throw CheckpointError(
        fmt::format("{}: the config describes a model of {} parameters, the files hold {} numbers",
                    origin,
                    parameter_count(config),
                    tensors.element_count()));
  }
  const torch::NoGradGuard no_grad;
  GPT model(config);
  const ParameterMap ours = parameter_map(model);
  std::vector<std::string> problems;
  for (const TensorRule& rule : rules) {
    const auto& entry = *tensors.find(rule.foreign);
    std::vector<int64_t> expected = ours.at(rule.ours[0]).sizes().vec();
    if (is_vocabulary(rule.ours[0])) expected[0] = config.vocab_size;
    for (size_t i = 1; i < rule.ours.size(); ++i) expected[0] += ours.at(rule.ours[i]).size(0);
    if (rule.transposed) std::reverse(expected.begin(), expected.end());
    if (entry.shape != expected) {
      problems.push_back(fmt::format("shape of {}: the file has {}, the config gives {}",
                                     escape_for_message(entry.given),
                                     shape_text(entry.shape),
                                     shape_text(expected)));
    }
  }
  if (!problems.empty()) refuse(origin, std::move(problems));
  for (const TensorRule& rule : rules) {
    torch::Tensor values = ForeignTensors::read(*tensors.find(rule.foreign));
    if (rule.transposed) values = values.t();
    int64_t row = 0;
    for (const std::string& name : rule.ours) {
      torch::Tensor target = ours.at(name);
      if (is_vocabulary(name)) {
        target.zero_();
        target = target.narrow(0, 0, config.vocab_size);
      }
      target.copy_(values.narrow(0, row, target.size(0)));
      row += target.size(0);
    }
  }
  return model;
}

ParameterMap parameter_map(const GPT& model) {
  ParameterMap result;
  for (const auto& [name, tensor] : unique_parameters(*model)) result[name] = tensor.detach();
  return result;
}

torch::Tensor foreign_tensor(const TensorRule& rule,
                             const ParameterMap& parameters,
                             int64_t vocab_size) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for (const std::string& name : rule.ours) {
    torch::Tensor part =
        without_padding(name, parameters.at(name), vocab_size).to(torch::kCPU, torch::kFloat32);
    parts.push_back(rule.paired_rows > 0 ? pair_rows(part, rule.paired_rows) : part);
  }
  torch::Tensor result = parts.size() == 1 ? parts[0] : torch::cat(parts, /*dim=*/0);
  if (rule.transposed) result = result.t();
  return result.contiguous();
}

GPT with_config(const GPT& model, const ModelConfig& config) {
  const torch::NoGradGuard no_grad;
  const ParameterMap theirs = parameter_map(model);
  GPT result(config);
  for (auto& [name, tensor] : parameter_map(result)) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) {
      tensor.zero_();
      continue;
    }
    const int64_t rows = std::min(tensor.size(0), found->second.size(0));
    tensor.narrow(0, 0, rows).copy_(found->second.narrow(0, 0, rows));
  }
  return result;
}

}  // namespace tril
