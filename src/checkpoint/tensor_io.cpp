#include "tril/checkpoint/tensor_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "tril/base/error.h"

namespace tril {
namespace {

struct DtypeName {
  const char* name;
  torch::ScalarType type;
};
constexpr DtypeName kDtypes[] = {{"F32", torch::kFloat32},
                                 {"F64", torch::kFloat64},
                                 {"F16", torch::kFloat16},
                                 {"BF16", torch::kBFloat16},
                                 {"I64", torch::kInt64},
                                 {"I32", torch::kInt32},
                                 {"U8", torch::kUInt8},
                                 {"BOOL", torch::kBool}};

std::string dtype_name(torch::ScalarType type) {
  for (const auto& entry : kDtypes) {
    if (entry.type == type) return entry.name;
  }
  TORCH_CHECK(false, "no safetensors name for ", type);
}

/// Nothing for a type that tril does not use.
std::optional<torch::ScalarType> dtype_of(const TensorInfo& info) {
  for (const auto& entry : kDtypes) {
    if (info.dtype == entry.name) return entry.type;
  }
  return std::nullopt;
}

/// Floating-point values are converted into each other; all other types must be equal.
bool can_load(const TensorInfo& info, torch::ScalarType wanted) {
  const auto type = dtype_of(info);
  return type && (*type == wanted || (at::isFloatingType(*type) && at::isFloatingType(wanted)));
}

}  // namespace

WrittenFile save_tensors(const std::filesystem::path& path,
                         const std::vector<NamedTensor>& tensors) {
  std::vector<torch::Tensor> on_cpu;  // keeps the copies alive while they are written
  std::vector<TensorToWrite> entries;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor& t = on_cpu.emplace_back(tensor.detach().to(torch::kCPU).contiguous());
    const auto n_bytes = static_cast<size_t>(t.nbytes());
    entries.push_back({name,
                       dtype_name(t.scalar_type()),
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.const_data_ptr()), n_bytes}});
  }
  return write_safetensors(path, std::move(entries));
}

std::vector<std::string> compare_tensors(const SafetensorsFile& file,
                                         const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> differences;
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : tensors) {
    wanted.insert(name);
    const TensorInfo* info = file.find(name);
    if (info == nullptr) {
      differences.push_back(fmt::format("missing: {} {}", name, shape_text(tensor.sizes())));
    } else if (tensor.sizes() != at::IntArrayRef(info->shape)) {
      differences.push_back(fmt::format("shape of {}: the file has {}, the config gives {}",
                                        name,
                                        shape_text(info->shape),
                                        shape_text(tensor.sizes())));
    } else if (!can_load(*info, tensor.scalar_type())) {
      differences.push_back(fmt::format("type of {}: the file has {}, expected {}",
                                        name,
                                        info->dtype,
                                        dtype_name(tensor.scalar_type())));
    }
  }
  for (const auto& info : file.tensors()) {
    if (!wanted.contains(info.name)) {
      differences.push_back(fmt::format("unknown: {} {}", info.name, shape_text(info.shape)));
    }
  }
  return differences;
}

void load_tensors(const SafetensorsFile& file, const std::vector<NamedTensor>& tensors) {
  auto differences = compare_tensors(file, tensors);
  if (!differences.empty()) {
    constexpr size_t kShown = 20;
    const size_t total = differences.size();
    if (total > kShown) differences.resize(kShown);
    throw CheckpointError(fmt::format("{}: {} tensors do not fit this model:\n  {}{}",
                                      file.path().string(),
                                      total,
                                      fmt::join(differences, "\n  "),
                                      total > kShown ? "\n  ..." : ""));
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    const TensorInfo& info = *file.find(name);
    const auto bytes = file.data(info);
    torch::Tensor values = torch::empty(info.shape, dtype_of(info).value());
    if (!bytes.empty()) std::memcpy(values.mutable_data_ptr(), bytes.data(), bytes.size());
    tensor.detach().copy_(values);
  }
}

}  // namespace tril
