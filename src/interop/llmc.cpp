#include "tril/interop/llmc.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "foreign_limits.h"
#include "tril/base/error.h"

namespace tril {
namespace {

constexpr int32_t kMagic = 20240326;
constexpr int32_t kVersionFp32 = 3;
constexpr int32_t kVersionBf16 = 5;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

int32_t integer_at(std::span<const std::byte> bytes, size_t index) {
  std::array<uint8_t, 4> b{};
  std::memcpy(b.data(), bytes.data() + 4 * index, 4);
  return static_cast<int32_t>(uint32_t{b[0]} | uint32_t{b[1]} << 8 | uint32_t{b[2]} << 16 |
                              uint32_t{b[3]} << 24);
}

/// Lays tensors out one after another.
class Layout {
 public:
  Layout(LlmcModel& model, uint64_t element_bytes) : model_(model), element_bytes_(element_bytes) {}

  /// One tensor per block, all blocks of one kind in a row.
  void blocks(const std::string& name, const std::vector<int64_t>& shape) {
    for (int64_t i = 0; i < model_.config.n_blocks; ++i) {
      single(fmt::format("h.{}.{}", i, name), shape);
    }
  }
  /// `stored_rows`: rows in the file, when it holds more than are wanted.
  void single(const std::string& name, const std::vector<int64_t>& shape, int64_t stored_rows = 0) {
    uint64_t n = 1;
    for (const int64_t size : shape) n *= static_cast<uint64_t>(size);
    const uint64_t bytes = n * element_bytes_;
    model_.tensors.push_back({name, shape, offset_, bytes});
    offset_ += stored_rows > 0
                   ? bytes / static_cast<uint64_t>(shape[0]) * static_cast<uint64_t>(stored_rows)
                   : bytes;
  }
  uint64_t end() const { return offset_; }

 private:
  LlmcModel& model_;
  uint64_t element_bytes_;
  uint64_t offset_ = kHeaderBytes;
};

}  // namespace

bool is_llmc_model(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && integer_at(bytes, 0) == kMagic;
}

LlmcModel read_llmc_model(std::span<const std::byte> bytes, const std::string& origin) {
  const auto refuse = [&](const std::string& reason) {
    throw CheckpointError(fmt::format("{} is not a usable llm.c model: {}", origin, reason));
  };
  if (bytes.size() < kHeaderBytes) {
    refuse(fmt::format(
        "it has {} bytes, the header alone {}; it is truncated", bytes.size(), kHeaderBytes));
  }
  if (!is_llmc_model(bytes)) {
    refuse(fmt::format("it begins with {}, expected {}", integer_at(bytes, 0), kMagic));
  }
  const int32_t version = integer_at(bytes, 1);
  if (version != kVersionFp32 && version != kVersionBf16) {
    refuse(
        fmt::format("version {}; tril reads {} (fp32) and {} (bf16). Write it anew with llm.c's "
                    "train_gpt2.py",
                    version,
                    kVersionFp32,
                    kVersionBf16));
  }
  struct Size {
    const char* name;
    int64_t max;
  };
  constexpr std::array<Size, 6> kSizes = {{{"max_seq_len", 1 << 20},
                                           {"vocab_size", 1 << 24},
                                           {"num_layers", 1 << 12},
                                           {"num_heads", 1 << 16},
                                           {"channels", 1 << 16},
                                           {"padded_vocab_size", 1 << 24}}};
  std::array<int64_t, 6> sizes{};
  for (size_t i = 0; i < kSizes.size(); ++i) {
    sizes[i] = integer_at(bytes, 2 + i);
    if (sizes[i] < 1 || sizes[i] > kSizes[i].max) {
      refuse(fmt::format("{} is {}, expected 1 to {}", kSizes[i].name, sizes[i], kSizes[i].max));
    }
  }
  const auto [t, v, n_blocks, n_head, c, padded_v] = sizes;
  if (padded_v < v) refuse(fmt::format("padded_vocab_size {} is below vocab_size {}", padded_v, v));
  if (c % n_head != 0) refuse(fmt::format("channels {} is no multiple of num_heads {}", c, n_head));
  if (n_blocks * n_head > kMaxHeadsInAll) refuse("it has more heads than tril reads");
  const uint64_t element_bytes = version == kVersionFp32 ? 4 : 2;
  // Before thousands of blocks are listed.
  const auto block_bytes =
      static_cast<uint64_t>(n_blocks) * static_cast<uint64_t>(12 * c * c + 13 * c) * element_bytes;
  if (block_bytes > bytes.size()) {
    refuse(fmt::format("its {} blocks make {} bytes, the file has {}; it is truncated",
                       n_blocks,
                       block_bytes,
                       bytes.size()));
  }

  LlmcModel model;
  model.dtype = version == kVersionFp32 ? "F32" : "BF16";
  model.config = model_preset(Preset::kGpt2);
  model.config.context_length = t;
  model.config.vocab_size = v;
  model.config.n_blocks = n_blocks;
  model.config.n_head = n_head;
  model.config.n_embed = c;
  Layout layout(model, element_bytes);
  layout.single("wte.weight", {v, c}, padded_v);
  layout.single("wpe.weight", {t, c});
  layout.blocks("ln_1.weight", {c});
  layout.blocks("ln_1.bias", {c});
  layout.blocks("attn.c_attn.weight", {3 * c, c});
  layout.blocks("attn.c_attn.bias", {3 * c});
  layout.blocks("attn.c_proj.weight", {c, c});
  layout.blocks("attn.c_proj.bias", {c});
  layout.blocks("ln_2.weight", {c});
  layout.blocks("ln_2.bias", {c});
  layout.blocks("mlp.c_fc.weight", {4 * c, c});
  layout.blocks("mlp.c_fc.bias", {4 * c});
  layout.blocks("mlp.c_proj.weight", {c, 4 * c});
  layout.blocks("mlp.c_proj.bias", {c});
  layout.single("ln_f.weight", {c});
  layout.single("ln_f.bias", {c});
  if (layout.end() != bytes.size()) {
    refuse(fmt::format("its sizes make {} bytes, the file has {}{}",
                       layout.end(),
                       bytes.size(),
                       bytes.size() < layout.end() ? "; it is truncated" : ""));
  }
  return model;
}

}  // namespace tril
