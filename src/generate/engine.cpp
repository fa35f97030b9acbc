#include "tril/generate/engine.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tril/base/cpu.h"
#include "tril/generate/decode_kernels.h"
#include "tril/model/activation.h"
#include "tril/model/rotary.h"

namespace tril {
namespace {

constexpr int64_t kBytesPerThread = 256 * 1024;
constexpr int64_t kChunk = 64;  // rows whose sums wait to be scaled and written

struct PackedNorm {
  torch::Tensor weight;
  torch::Tensor bias;
};

struct PackedBlock {
  PackedNorm ln1;
  PackedMatrix qkv;  ///< rows: queries of all heads, keys, values
  PackedMatrix proj;
  PackedNorm ln2;
  PackedMatrix up, gate, down;
};

PackedNorm pack_norm(const NormLayer& norm) {
  PackedNorm packed{norm->weight.detach().to(torch::kCPU, torch::kFloat32).contiguous(), {}};
  if (norm->bias.defined()) packed.bias = norm->bias.detach().to(torch::kCPU, torch::kFloat32);
  return packed;
}

PackedMatrix pack_linear(const Linear& linear, WeightFormat format) {
  return pack_matrix(linear->weight, linear->bias, format);
}

/// Rows: queries of all heads, then keys and values of one head per group.
PackedMatrix pack_qkv(const MultiHeadAttention& attn, int64_t n_kv, WeightFormat format) {
  std::vector<torch::Tensor> weights;
  std::vector<torch::Tensor> biases;
  const auto n_head = static_cast<int64_t>(attn->heads->size());
  const auto add = [&](Linear HeadImpl::*part, int64_t stride) {
    for (int64_t h = 0; h < n_head; h += stride) {
      const auto& linear = attn->heads->ptr(static_cast<size_t>(h))->as<HeadImpl>()->*part;
      weights.push_back(linear->weight.detach());
      if (linear->bias.defined()) biases.push_back(linear->bias.detach());
    }
  };
  add(&HeadImpl::query, 1);
  add(&HeadImpl::key, n_head / n_kv);
  add(&HeadImpl::value, n_head / n_kv);
  return pack_matrix(
      torch::cat(weights), biases.empty() ? torch::Tensor() : torch::cat(biases), format);
}

/// A plain float array that is reached through its tensor.
float* data(const torch::Tensor& t) {
  return t.mutable_data_ptr<float>();
}
const float* const_data(const torch::Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

/// (n, columns) float x matrix -> (n, rows) float, through LibTorch. Bytes are exact in bf16, so
/// they are multiplied as they are and scaled afterwards.
torch::Tensor multiply(const torch::Tensor& x, const PackedMatrix& m) {
  if (m.format == WeightFormat::kFp32) return at::linear(x, m.values, m.bias);
  const auto type = cpu_has_bf16_products() ? torch::kBFloat16 : torch::kFloat32;
  torch::Tensor y = at::linear(x.to(type), m.values.to(type)).to(torch::kFloat32);
  if (m.scales.defined()) y.mul_(m.scales);
  if (m.bias.defined()) y.add_(m.bias);
  return y;
}

/// What one thread does of a matrix: an equal share of its rows, in groups of four.
struct Share {
  int64_t begin;
  int64_t end;
};
Share share_of(int64_t n, int64_t thread, int64_t n_threads, int64_t group) {
  const int64_t groups = (n + group - 1) / group;
  return {std::min(n, groups * thread / n_threads * group),
          std::min(n, groups * (thread + 1) / n_threads * group)};
}

}  // namespace

struct Engine::State {
  ModelConfig config;
  EngineOptions options;
  DecodeKernels kernels;
  int64_t n_kv;     ///< heads of keys and values
  int64_t n_shift;  ///< the first of them, whose keys are found one position later (n_shift_head)
  int64_t threads = 1;
  int64_t bytes_per_step = 0;

  torch::Tensor token_embedding;     ///< (padded V, C)
  torch::Tensor position_embedding;  ///< (context, C) or undefined
  RotaryTable rotary;
  std::vector<PackedBlock> blocks;
  PackedNorm final_norm;
  PackedMatrix head;

  /// (sequences, L, 2, n_kv, capacity + 1, D): float32, or bfloat16 where the weights are narrow
  /// too. The last row is for shifted keys alone.
  torch::Tensor cache;
  std::vector<int64_t> lengths;

  // Room for one step; the first dimension is the number of texts.
  torch::Tensor x, qkv, attended, wide, gate, logits;
  torch::Tensor normed;        ///< (threads, sequences, C)
  torch::Tensor scores;        ///< (threads, capacity)
  torch::Tensor sums;          ///< (threads, sequences * kChunk)
  torch::Tensor shorts;        ///< (threads, sequences * max(C, F)), int16
  torch::Tensor shorts_scale;  ///< (threads, sequences)
  std::vector<EngineStep> steps;

  State(const GPT& model, const EngineOptions& wanted)
      : config(model->config()),
        options(wanted),
        kernels(decode_kernels(model->config().activation)),
        n_kv(config.kv_heads()),
        n_shift(config.n_shift_head * n_kv / config.n_head) {
    if (options.capacity <= 0) options.capacity = config.context_length;
    options.capacity = std::min(options.capacity, config.context_length);
    pack(model);
    allocate();
  }

  void pack(const GPT& model) {
    const WeightFormat format = options.format;
    const auto as_float = [](const torch::Tensor& t) {
      return t.detach().to(torch::kCPU, torch::kFloat32).contiguous();
    };
    token_embedding = as_float(model->token_embedding->weight);
    if (config.positions == Positions::kLearned) {
      position_embedding = as_float(model->position_embedding->weight);
    } else {
      rotary = make_rotary_table(config.context_length, config.head_size(), config.rope_base);
    }
    for (const auto& module : *model->blocks) {
      auto* block = module->as<BlockImpl>();
      PackedBlock& packed = blocks.emplace_back();
      packed.ln1 = pack_norm(block->ln1);
      packed.qkv = pack_qkv(block->attn, n_kv, format);
      packed.proj = pack_linear(block->attn->proj, format);
      packed.ln2 = pack_norm(block->ln2);
      packed.up = pack_linear(block->ffn->up, format);
      if (config.activation == Activation::kSwiglu) {
        packed.gate = pack_linear(block->ffn->gate, format);
      }
      packed.down = pack_linear(block->ffn->down, format);
      for (const auto* m : {&packed.qkv, &packed.proj, &packed.up, &packed.gate, &packed.down}) {
        if (m->values.defined()) bytes_per_step += static_cast<int64_t>(m->values.nbytes());
      }
    }
    final_norm = pack_norm(model->final_norm);
    head = pack_matrix(model->head_weight().narrow(0, 0, config.vocab_size),
                       model->head_bias().defined()
                           ? model->head_bias().narrow(0, 0, config.vocab_size)
                           : torch::Tensor(),
                       format);
    bytes_per_step += static_cast<int64_t>(head.values.nbytes());
    threads = std::clamp<int64_t>(bytes_per_step / kBytesPerThread, 1, options.threads);
  }

  void allocate() {
    const auto f32 = torch::TensorOptions().dtype(torch::kFloat32);
    const int64_t n = options.sequences;
    const int64_t d = config.head_size();
    cache = torch::zeros(
        {n, config.n_blocks, 2, n_kv, options.capacity + 1, d},
        f32.dtype(options.format == WeightFormat::kFp32 ? torch::kFloat32 : torch::kBFloat16));
    lengths.assign(static_cast<size_t>(n), 0);
    x = torch::empty({n, config.n_embed}, f32);
    qkv = torch::empty({n, (config.n_head + 2 * n_kv) * d}, f32);
    attended = torch::empty({n, config.n_embed}, f32);
    wide = torch::empty({n, config.ffn_size()}, f32);
    gate = torch::empty({n, config.ffn_size()}, f32);
    logits = torch::empty({n, config.vocab_size}, f32);
    normed = torch::empty({threads, n, config.n_embed}, f32);
    scores = torch::empty({threads, options.capacity}, f32);
    sums = torch::empty({threads, n * kChunk}, f32);
    if (options.format == WeightFormat::kInt8) {
      const int64_t widest = std::max(config.n_embed, config.ffn_size());
      shorts = torch::empty({threads, n * widest}, f32.dtype(torch::kInt16));
      shorts_scale = torch::empty({threads, n}, f32);
    }
    steps.reserve(static_cast<size_t>(n));
  }

  /// The cached keys (part 0) or values (part 1) of one text in one block: (n_kv, capacity + 1, D).
  torch::Tensor cached(int64_t sequence, int64_t block, int64_t part) const {
    return cache.select(0, sequence).select(0, block).select(0, part);
  }
  template <typename Value>
  Value* cached_head(int64_t sequence, size_t block, int64_t part, int64_t kv_head) const {
    const int64_t index =
        ((sequence * config.n_blocks + static_cast<int64_t>(block)) * 2 + part) * n_kv + kv_head;
    return static_cast<Value*>(cache.mutable_data_ptr()) +
           index * (options.capacity + 1) * config.head_size();
  }

  // ---- The prompt, through LibTorch ----

  torch::Tensor normalize(const torch::Tensor& t, const PackedNorm& norm) const {
    if (config.norm == Norm::kLayerNorm) {
      return torch::layer_norm(t, norm.weight.sizes(), norm.weight, norm.bias, config.norm_epsilon);
    }
    return torch::rms_norm(t, norm.weight.sizes(), norm.weight, config.norm_epsilon);
  }

  torch::Tensor attend_prompt(const torch::Tensor& h, size_t block, int64_t sequence) const {
    const int64_t t = h.size(0);
    const int64_t d = config.head_size();
    const auto parts = multiply(h, blocks[block].qkv)  // (T, C) -> (T, (H + 2 Hkv) D)
                           .split_with_sizes({config.n_head * d, n_kv * d, n_kv * d}, 1);
    const auto heads = [&](const torch::Tensor& part) {
      return part.unflatten(1, {-1, d}).transpose(0, 1);  // (T, H D) -> (H, T, D)
    };
    torch::Tensor q = heads(parts[0]);
    torch::Tensor k = heads(parts[1]);
    const torch::Tensor v = heads(parts[2]);
    if (config.qk_norm) {
      q = normalize_qk(q, config.norm_epsilon);
      k = normalize_qk(k, config.norm_epsilon);
    }
    if (rotary.cos.defined()) {
      q = apply_rotary(q, rotary);
      k = apply_rotary(k, rotary);
    }
    const auto i = static_cast<int64_t>(block);
    const torch::Tensor keys = cached(sequence, i, 0);
    if (n_shift > 0) {  // the last key waits for the next position
      keys.narrow(0, 0, n_shift).select(1, t).copy_(k.narrow(0, 0, n_shift).select(1, t - 1));
    }
    k = shift_keys(k, n_shift);
    keys.narrow(1, 0, t).copy_(k);
    cached(sequence, i, 1).narrow(1, 0, t).copy_(v);
    const torch::Tensor y = at::scaled_dot_product_attention(q.unsqueeze(0),
                                                             k.unsqueeze(0),
                                                             v.unsqueeze(0),
                                                             /*attn_mask=*/{},
                                                             /*dropout_p=*/0.0,
                                                             /*is_causal=*/true,
                                                             /*scale=*/std::nullopt,
                                                             /*enable_gqa=*/n_kv != config.n_head);
    return y.squeeze(0).transpose(0, 1).flatten(1);  // (H, T, D) -> (T, C)
  }

  void read_prompt(int64_t sequence, std::span<const int64_t> ids) {
    const torch::NoGradGuard no_grad;
    const auto t = static_cast<int64_t>(ids.size());
    const torch::Tensor index = torch::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()));
    torch::Tensor h = token_embedding.index_select(0, index);  // (T, C)
    if (position_embedding.defined()) h = h + position_embedding.narrow(0, 0, t);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const PackedBlock& block = blocks[i];
      h = h + multiply(attend_prompt(normalize(h, block.ln1), i, sequence), block.proj);
      if (i + 1 == blocks.size()) h = h.narrow(0, t - 1, 1);  // only the last position is asked for
      const torch::Tensor n = normalize(h, block.ln2);
      const torch::Tensor up = multiply(n, block.up);
      const torch::Tensor a = config.activation == Activation::kSwiglu
                                  ? torch::silu(multiply(n, block.gate)) * up
                                  : activate_plain(up, config.activation);
      h = h + multiply(a, block.down);
    }
    x.narrow(0, 0, 1).copy_(h);
    lengths[static_cast<size_t>(sequence)] = t;
  }

  // ---- One token of each text, with our own loops. Every thread runs all of it and does its
  // share; barriers stand where one thread reads what another wrote. ----

  struct Worker {
    int64_t thread;
    int64_t n_threads;
  };

  /// This thread's 16-bit copies of the vectors that bytes multiply, and their scales.
  int16_t* short_vectors(Worker w) const {
    return shorts.mutable_data_ptr<int16_t>() + w.thread * shorts.size(1);
  }
  float* short_scales(Worker w) const {
    return data(shorts_scale) + w.thread * shorts_scale.size(1);
  }

  void multiply_rows(
      const PackedMatrix& m, Share rows, const float* in, float* out, Worker w) const {
    const void* weights = m.values.const_data_ptr();
    const auto n = static_cast<int64_t>(steps.size());
    const int64_t c = m.columns();
    const auto [begin, end] = rows;
    switch (m.format) {
      case WeightFormat::kFp32:
        kernels.fp32(static_cast<const float*>(weights), c, begin, end, in, n, out, kChunk);
        break;
      case WeightFormat::kBf16:
        kernels.bf16(static_cast<const uint16_t*>(weights), c, begin, end, in, n, out, kChunk);
        break;
      case WeightFormat::kInt8:
        kernels.int8(
            static_cast<const int8_t*>(weights), c, begin, end, short_vectors(w), n, out, kChunk);
        break;
    }
  }

  enum class Write { kSet, kAdd };

  /// out = matrix * in + bias, or out += that: this thread's rows, for every text.
  void product(const PackedMatrix& m, const float* in, float* out, Write write, Worker w) const {
    const Share mine = share_of(m.rows(), w.thread, w.n_threads, 4);
    const int64_t stride = m.rows();
    const float* bias = const_data(m.bias);
    const float* scale = const_data(m.scales);
    float* thread_sums = data(sums) + w.thread * sums.size(1);
    if (scale != nullptr) {
      for (size_t text = 0; text < steps.size(); ++text) {
        const int64_t at = static_cast<int64_t>(text) * m.columns();
        short_scales(w)[text] = to_shorts(in + at, m.columns(), short_vectors(w) + at);
      }
    }
    for (int64_t first = mine.begin; first < mine.end; first += kChunk) {
      const Share rows{first, std::min(mine.end, first + kChunk)};
      multiply_rows(m, rows, in, thread_sums, w);
      for (size_t text = 0; text < steps.size(); ++text) {
        const float* from = thread_sums + static_cast<int64_t>(text) * kChunk - first;
        float* to = out + static_cast<int64_t>(text) * stride;
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          float value = from[r];
          if (scale != nullptr) value *= scale[r] * short_scales(w)[text];
          if (bias != nullptr) value += bias[r];
          to[r] = write == Write::kAdd ? to[r] + value : value;
        }
      }
    }
  }

  /// Every thread normalises all texts for itself: cheaper than waiting for another.
  const float* normalized(const PackedNorm& norm, Worker w) const {
    const int64_t c = config.n_embed;
    float* result = data(normed) + w.thread * normed.size(1) * c;
    const float* gain = const_data(norm.weight);
    const float* bias = const_data(norm.bias);
    for (size_t text = 0; text < steps.size(); ++text) {
      const float* in = data(x) + static_cast<int64_t>(text) * c;
      float* out = result + static_cast<int64_t>(text) * c;
      float mean = 0.0F;
      if (config.norm == Norm::kLayerNorm) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < c; ++i) mean += in[i];
        mean /= static_cast<float>(c);
      }
      float square = 0.0F;
#pragma omp simd reduction(+ : square)
      for (int64_t i = 0; i < c; ++i) square += (in[i] - mean) * (in[i] - mean);
      const float factor = 1.0F / std::sqrt(square / static_cast<float>(c) +
                                            static_cast<float>(config.norm_epsilon));
      for (int64_t i = 0; i < c; ++i) out[i] = (in[i] - mean) * factor * gain[i];
      if (bias != nullptr) {
        for (int64_t i = 0; i < c; ++i) out[i] += bias[i];
      }
    }
    return result;
  }

  /// A query or key of one head, in place: normalised and rotated as the model wants.
  void finish_query_or_key(float* v, int64_t position) const {
    const int64_t d = config.head_size();
    if (config.qk_norm) {
      float square = 0.0F;
      for (int64_t i = 0; i < d; ++i) square += v[i] * v[i];
      const float factor = 1.0F / std::sqrt(square / static_cast<float>(d) +
                                            static_cast<float>(config.norm_epsilon));
      for (int64_t i = 0; i < d; ++i) v[i] *= factor;
    }
    if (!rotary.cos.defined()) return;
    const float* cos = const_data(rotary.cos) + position * (d / 2);
    const float* sin = const_data(rotary.sin) + position * (d / 2);
    for (int64_t i = 0; i < d / 2; ++i) {
      const float a = v[i];
      const float b = v[i + d / 2];
      v[i] = a * cos[i] - b * sin[i];
      v[i + d / 2] = b * cos[i] + a * sin[i];
    }
  }

  void store(float* to, const float* from) const {
    std::copy(from, from + config.head_size(), to);
  }
  void store(uint16_t* to, const float* from) const {
    for (int64_t i = 0; i < config.head_size(); ++i) to[i] = to_bf16(from[i]);
  }

  /// One head of keys and values, with all the query heads that read it.
  template <typename Value>
  void attend(size_t text, int64_t kv_head, size_t block, AttentionKernel<Value> kernel, Worker w) {
    const int64_t d = config.head_size();
    const int64_t sequence = steps[text].sequence;
    const int64_t position = lengths[static_cast<size_t>(sequence)];
    float* row = data(qkv) + static_cast<int64_t>(text) * qkv.size(1);
    float* key = row + (config.n_head + kv_head) * d;
    finish_query_or_key(key, position);
    Value* keys = cached_head<Value>(sequence, block, 0, kv_head);
    Value* values = cached_head<Value>(sequence, block, 1, kv_head);
    const bool shifted = kv_head < n_shift;
    store(keys + (shifted ? position + 1 : position) * d, key);
    if (shifted && position == 0) store(keys, key);
    store(values + position * d, row + (config.n_head + n_kv + kv_head) * d);
    const int64_t group = config.n_head / n_kv;
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      finish_query_or_key(row + h * d, position);
      kernel(row + h * d,
             keys,
             values,
             position + 1,
             d,
             scale,
             data(scores) + w.thread * scores.size(1),
             data(attended) + static_cast<int64_t>(text) * attended.size(1) + h * d);
    }
  }

  void attend_all(size_t block, Worker w) {
    const auto n = static_cast<int64_t>(steps.size());
    const Share mine = share_of(n * n_kv, w.thread, w.n_threads, 1);
    for (int64_t task = mine.begin; task < mine.end; ++task) {
      const auto text = static_cast<size_t>(task / n_kv);
      if (options.format == WeightFormat::kFp32) {
        attend<float>(text, task % n_kv, block, kernels.attention_fp32, w);
      } else {
        attend<uint16_t>(text, task % n_kv, block, kernels.attention_bf16, w);
      }
    }
  }

  void embed(Worker w) {
    const int64_t c = config.n_embed;
    const Share mine = share_of(c, w.thread, w.n_threads, 16);
    for (size_t text = 0; text < steps.size(); ++text) {
      const auto [sequence, id] = steps[text];
      const float* token = const_data(token_embedding) + id * c;
      float* out = data(x) + static_cast<int64_t>(text) * c;
      std::copy(token + mine.begin, token + mine.end, out + mine.begin);
      if (!position_embedding.defined()) continue;
      const float* position =
          const_data(position_embedding) + lengths[static_cast<size_t>(sequence)] * c;
      for (int64_t i = mine.begin; i < mine.end; ++i) out[i] += position[i];
    }
  }

  void feed_forward(const PackedBlock& block, Worker w) {
    const float* in = normalized(block.ln2, w);
    product(block.up, in, data(wide), Write::kSet, w);
    if (config.activation == Activation::kSwiglu) {
      product(block.gate, in, data(gate), Write::kSet, w);
    }
    // The rows that this thread has just written.
    const Share mine = share_of(block.up.rows(), w.thread, w.n_threads, 4);
    for (size_t text = 0; text < steps.size(); ++text) {
      const int64_t at = static_cast<int64_t>(text) * block.up.rows() + mine.begin;
      kernels.activation(data(wide) + at, data(gate) + at, mine.end - mine.begin);
    }
  }

  void run_step(Worker w) {
    embed(w);
#pragma omp barrier
    for (size_t i = 0; i < blocks.size(); ++i) {
      const PackedBlock& block = blocks[i];
      product(block.qkv, normalized(block.ln1, w), data(qkv), Write::kSet, w);
#pragma omp barrier
      attend_all(i, w);
#pragma omp barrier
      product(block.proj, const_data(attended), data(x), Write::kAdd, w);
#pragma omp barrier
      feed_forward(block, w);
#pragma omp barrier
      product(block.down, const_data(wide), data(x), Write::kAdd, w);
#pragma omp barrier
    }
    read_head(w);
  }

  void read_head(Worker w) {
    product(head, normalized(final_norm, w), data(logits), Write::kSet, w);
  }

  /// Runs f(Worker) on all threads.
  template <typename F>
  void on_threads(const F& f) const {
    if (threads == 1) {
      f(Worker{0, 1});
      return;
    }
#pragma omp parallel num_threads(static_cast <int>(threads))
    f(Worker{omp_get_thread_num(), omp_get_num_threads()});
  }

  void require_free(int64_t sequence, int64_t n_more, int64_t n_held) const {
    TORCH_CHECK(sequence >= 0 && sequence < options.sequences, "Engine: no text ", sequence);
    TORCH_CHECK(n_more >= 1 && n_held + n_more <= options.capacity,
                "Engine: ",
                n_held + n_more,
                " positions do not fit a capacity of ",
                options.capacity);
  }
};

Engine::Engine(const GPT& model, const EngineOptions& options)
    : state_(std::make_unique<State>(model, options)) {}
Engine::~Engine() = default;

std::span<const float> Engine::read_prompt(int64_t sequence, std::span<const int64_t> ids) {
  State& s = *state_;
  s.require_free(sequence, static_cast<int64_t>(ids.size()), 0);
  s.read_prompt(sequence, ids);
  s.steps.assign(1, {sequence, 0});  // the one text whose state is in x
  s.on_threads([&](State::Worker w) { s.read_head(w); });
  return logits(0);
}

void Engine::step(std::span<const EngineStep> steps) {
  State& s = *state_;
  TORCH_CHECK(!steps.empty() && static_cast<int64_t>(steps.size()) <= s.options.sequences,
              "Engine: a step has 1 to ",
              s.options.sequences,
              " texts");
  for (const auto& [sequence, id] : steps) {
    s.require_free(sequence, 1, length(sequence));
    TORCH_CHECK(id >= 0 && id < s.config.vocab_size, "Engine: no token ", id);
  }
  s.steps.assign(steps.begin(), steps.end());
  s.on_threads([&](State::Worker w) { s.run_step(w); });
  for (const EngineStep& step : s.steps) ++s.lengths[static_cast<size_t>(step.sequence)];
}

std::span<const float> Engine::logits(size_t step) const {
  const int64_t v = state_->config.vocab_size;
  return {const_data(state_->logits) + static_cast<int64_t>(step) * v, static_cast<size_t>(v)};
}

void Engine::copy_text(int64_t from, int64_t to) {
  State& s = *state_;
  const int64_t n = length(from);
  s.cache.select(0, to).narrow(3, 0, n + 1).copy_(s.cache.select(0, from).narrow(3, 0, n + 1));
  s.lengths[static_cast<size_t>(to)] = n;
}

int64_t Engine::length(int64_t sequence) const {
  return state_->lengths.at(static_cast<size_t>(sequence));
}
int64_t Engine::capacity() const {
  return state_->options.capacity;
}
int64_t Engine::vocab_size() const {
  return state_->config.vocab_size;
}
int64_t Engine::threads() const {
  return state_->threads;
}
int64_t Engine::bytes_per_step() const {
  return state_->bytes_per_step;
}

}  // namespace tril
