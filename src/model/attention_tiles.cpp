#include "attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "attention_rows.h"
#include "tril/base/vector_intrinsics.h"

#if defined(__x86_64__)
#define TRIL_TILE_TARGET \
  __attribute__((        \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")))
#define TRIL_TILE TRIL_TILE_TARGET __attribute__((always_inline)) inline
#endif

namespace tril {
namespace {

int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Rows of queries that are computed together: fewer skip more of the future, more share a load.
constexpr int64_t kTileRows = 24;

#if defined(__x86_64__)

constexpr int64_t kLanes = 16;  // 32-bit lanes of a vector

// ---- what a lane holds -------------------------------------------------------------------------

/// One float.
struct FloatLane {
  using Word = float;
  static constexpr int64_t kNumbers = 1;
  TRIL_TILE static __m512 load(const Word* p) { return _mm512_loadu_ps(p); }
  TRIL_TILE static __m512 repeated(const Word* p) { return _mm512_set1_ps(*p); }
  TRIL_TILE static __m512 multiply_add(__m512 sum, __m512 a, __m512 b) {
    return _mm512_fmadd_ps(a, b, sum);
  }
};

/// Two bfloat16 numbers that follow one another along the dimension that is summed over.
struct PairLane {
  using Word = uint32_t;
  static constexpr int64_t kNumbers = 2;
  TRIL_TILE static __m512i load(const Word* p) { return _mm512_loadu_si512(p); }
  TRIL_TILE static __m512i repeated(const Word* p) {
    return _mm512_set1_epi32(static_cast<int>(*p));
  }
  TRIL_TILE static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
  }
};

/// 16 floats as bfloat16.
TRIL_TILE __m256i rounded(const float* x) {
  return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(_mm512_loadu_ps(x)));
}

/// n floats, n a multiple of 16, as words along the row: n / kNumbers words.
TRIL_TILE void row_words(const float* x, int64_t n, float* out) {
  if (out != x) std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
}
TRIL_TILE void row_words(const float* x, int64_t n, uint32_t* out) {
  for (int64_t j = 0; j < n; j += kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j / 2), rounded(x + j));
  }
}

/// kNumbers rows of n floats, n a multiple of 16, as n words across them.
TRIL_TILE void column_words(const float* x, int64_t /*stride*/, int64_t n, float* out) {
  if (out != x) std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
}
TRIL_TILE void column_words(const float* x, int64_t stride, int64_t n, uint32_t* out) {
  for (int64_t j = 0; j < n; j += kLanes) {
    const __m256i low = rounded(x + j);
    const __m256i high = rounded(x + stride + j);
    _mm512_storeu_si512(out + j,
                        _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
  }
}

// ---- products ----------------------------------------------------------------------------------

/// Words of the left matrix: word k of row i stands at i * row + k * step.
template <typename Word>
struct Left {
  const Word* words;
  int64_t row, step;
};

/// Rows kRows, columns 16 * kVectors of C, held in registers over the whole sum.
template <typename Lane, int kRows, int kVectors>
TRIL_TILE void tile(const Left<typename Lane::Word>& a,
                    const typename Lane::Word* b,
                    int64_t ldb,
                    int64_t k,
                    float* c,
                    int64_t ldc,
                    bool adds) {
  __m512 sums[static_cast<size_t>(kRows)][static_cast<size_t>(kVectors)];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = adds ? _mm512_loadu_ps(c + i * ldc + v * kLanes) : _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < k; ++step) {
    const auto* words = a.words + step * a.step;
    decltype(Lane::load(b)) right[static_cast<size_t>(kVectors)];
    for (int v = 0; v < kVectors; ++v) right[v] = Lane::load(b + step * ldb + v * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const auto left = Lane::repeated(words + i * a.row);
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = Lane::multiply_add(sums[i][v], left, right[v]);
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + i * ldc + v * kLanes, sums[i][v]);
  }
}

template <typename Lane, int kRows, int kVectors>
TRIL_TILE void column_of_tiles(Left<typename Lane::Word> a,
                               int64_t rows,
                               const typename Lane::Word* b,
                               int64_t ldb,
                               int64_t k,
                               float* c,
                               int64_t ldc,
                               bool adds) {
  const auto next = [&](int64_t n) {
    a.words += n * a.row;
    c += n * ldc;
    rows -= n;
  };
  for (; rows >= kRows; next(kRows)) tile<Lane, kRows, kVectors>(a, b, ldb, k, c, ldc, adds);
  for (; rows >= 4; next(4)) tile<Lane, 4, kVectors>(a, b, ldb, k, c, ldc, adds);
  for (; rows > 0; next(1)) tile<Lane, 1, kVectors>(a, b, ldb, k, c, ldc, adds);
}

/// C = A B, or C += A B: (rows, k words) x (k words, columns) -> (rows, columns); columns a
/// multiple of 16.
template <typename Lane>
TRIL_TILE_TARGET __attribute__((noinline)) void multiply(Left<typename Lane::Word> a,
                                                         int64_t rows,
                                                         const typename Lane::Word* b,
                                                         int64_t ldb,
                                                         int64_t columns,
                                                         int64_t k,
                                                         float* c,
                                                         int64_t ldc,
                                                         bool adds) {
  for (; columns >= 4 * kLanes; columns -= 4 * kLanes, b += 4 * kLanes, c += 4 * kLanes) {
    column_of_tiles<Lane, 6, 4>(a, rows, b, ldb, k, c, ldc, adds);
  }
  if (columns >= 2 * kLanes) {
    column_of_tiles<Lane, 12, 2>(a, rows, b, ldb, k, c, ldc, adds);
    columns -= 2 * kLanes, b += 2 * kLanes, c += 2 * kLanes;
  }
  if (columns > 0) column_of_tiles<Lane, 12, 1>(a, rows, b, ldb, k, c, ldc, adds);
}

// ---- matrices of one head ----------------------------------------------------------------------

/// Sizes of a head's matrices, rounded up to whole vectors. All padding is zero.
struct Sizes {
  int64_t t, d, wide_t, wide_d;
  explicit Sizes(const HeadShape& shape)
      : t(shape.n_positions),
        d(shape.head_size),
        wide_t(round_up(t, kLanes)),
        wide_d(round_up(d, kLanes)) {}
};

/// Hands out working memory.
class Room {
 public:
  explicit Room(float* scratch) : next_(scratch) {}
  template <typename Word>
  Word* take(int64_t n) {
    auto* const begin = reinterpret_cast<Word*>(next_);
    next_ += round_up(n, kLanes);
    return begin;
  }

 private:
  float* next_;
};

/// Where the words of `n` floats go: they are words themselves, or pairs in a room of their own.
template <typename Word>
Word* words_of(float* x, int64_t n, Room& room) {
  if constexpr (std::is_same_v<Word, float>) {
    return x;
  } else {
    return room.take<Word>(n);
  }
}

/// (T, D) packed -> (wide T, wide D), the same rows.
TRIL_TILE void widen(const Sizes& n, const float* x, float* out) {
  std::memset(out, 0, static_cast<size_t>(n.wide_t * n.wide_d) * sizeof(float));
  for (int64_t i = 0; i < n.t; ++i) {
    std::memcpy(out + i * n.wide_d, x + i * n.d, static_cast<size_t>(n.d) * sizeof(float));
  }
}

/// Word k of row i at i * wide_d / kNumbers + k: a left matrix to be summed over D.
template <typename Word>
TRIL_TILE Left<Word> left_rows(const Sizes& n, const float* wide, Word* out) {
  constexpr int64_t kNumbers = std::is_same_v<Word, float> ? 1 : 2;
  row_words(wide, n.wide_t * n.wide_d, out);
  return {out, n.wide_d / kNumbers, 1};
}

/// A right matrix to be summed over T: word k of column j at k * wide_d + j.
template <typename Word>
TRIL_TILE void right_rows(const Sizes& n, const float* wide, Word* out) {
  constexpr int64_t kNumbers = std::is_same_v<Word, float> ? 1 : 2;
  for (int64_t i = 0; i < n.wide_t; i += kNumbers) {
    column_words(wide + i * n.wide_d, n.wide_d, n.wide_d, out + i / kNumbers * n.wide_d);
  }
}

/// Words only, whatever they mean.
template <typename Word>
TRIL_TILE void transpose_4x4(const Word* from, int64_t row, Word* to, int64_t to_row) {
  const auto load = [&](int64_t i) TRIL_TILE_TARGET {
    return _mm_loadu_ps(reinterpret_cast<const float*>(from + i * row));
  };
  __m128 a = load(0), b = load(1), c = load(2), d = load(3);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(reinterpret_cast<float*>(to), a);
  _mm_storeu_ps(reinterpret_cast<float*>(to + to_row), b);
  _mm_storeu_ps(reinterpret_cast<float*>(to + 2 * to_row), c);
  _mm_storeu_ps(reinterpret_cast<float*>(to + 3 * to_row), d);
}

/// A right matrix to be summed over D, from the words of its rows: word k of column j (a row of
/// `rows`) at k * wide_t + j.
template <typename Word>
TRIL_TILE void right_columns(const Sizes& n, const Left<Word>& rows, Word* out) {
  for (int64_t i = 0; i < n.wide_t; i += 4) {
    for (int64_t k = 0; k < rows.row; k += 4) {
      transpose_4x4(rows.words + i * rows.row + k, rows.row, out + k * n.wide_t + i, n.wide_t);
    }
  }
}

// ---- the kernels -------------------------------------------------------------------------------

template <typename Lane, typename T>
TRIL_TILE_TARGET void forward(const HeadForward<T>& head) {
  const auto& [shape, seed, q, k, v, out, log_sum, scratch] = head;
  using Word = typename Lane::Word;
  const Sizes n(shape);
  Room room(scratch);
  auto* const rows = room.take<float>((n.t + 1) * n.d);  // (T + 1, D) as it comes
  auto* const wide = room.take<float>(n.wide_t * n.wide_d);
  auto* const words = room.take<Word>(n.wide_t * n.wide_d);
  auto* const q_rows = room.take<Word>(n.wide_t * n.wide_d);
  auto* const k_columns = room.take<Word>(n.wide_t * n.wide_d);
  auto* const v_rows = room.take<Word>(n.wide_t * n.wide_d);
  auto* const s = room.take<float>(kTileRows * n.wide_t);  // scores, then weights
  auto* const p = words_of<Word>(s, kTileRows * n.wide_t, room);
  auto* const y = room.take<float>(kTileRows * n.wide_d);

  load_keys(shape, k, rows);
  widen(n, rows, wide);
  right_columns(n, left_rows(n, wide, words), k_columns);
  load_queries_or_keys(shape, q, rows);
  widen(n, rows, wide);
  const Left<Word> queries = left_rows(n, wide, q_rows);
  load_rows(v, shape.qkv_stride, n.t, n.d, rows);
  widen(n, rows, wide);
  right_rows(n, wide, v_rows);

  for (int64_t first = 0; first < n.t; first += kTileRows) {
    const int64_t n_rows = std::min(kTileRows, n.t - first);
    const int64_t columns = round_up(first + n_rows, kLanes);
    float inverse[kTileRows];
    multiply<Lane>({queries.words + first * queries.row, queries.row, queries.step},
                   n_rows,
                   k_columns,
                   n.wide_t,
                   columns,
                   n.wide_d / Lane::kNumbers,
                   s,
                   n.wide_t,
                   false);
    for (int64_t i = 0; i < n_rows; ++i) {
      float* const row = s + i * n.wide_t;
      const RowSum sum = softmax_row(shape, seed, first + i, columns, row);
      log_sum[first + i] = sum.log_sum;
      inverse[i] = sum.inverse;
      row_words(row, columns, p + i * (n.wide_t / Lane::kNumbers));
    }
    multiply<Lane>({p, n.wide_t / Lane::kNumbers, 1},
                   n_rows,
                   v_rows,
                   n.wide_d,
                   n.wide_d,
                   columns / Lane::kNumbers,
                   y,
                   n.wide_d,
                   false);
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* __restrict row = y + i * n.wide_d;
      T* __restrict to = out + (first + i) * shape.out_stride;
      for (int64_t j = 0; j < n.d; ++j) store(row[j] * inverse[i], to + j);
    }
  }
}

template <typename Lane, typename T>
TRIL_TILE_TARGET void backward(const HeadBackward<T>& head) {
  const auto& [shape, seed, q, k, v, out, log_sum, d_out, dq, dk, dv, scratch] = head;
  using Word = typename Lane::Word;
  const Sizes n(shape);
  const int64_t size = n.wide_t * n.wide_d, block = kTileRows * n.wide_t;
  Room room(scratch);
  auto* const rows = room.take<float>((n.t + 1) * n.d);
  auto* const wide = room.take<float>(size);
  auto* const words = room.take<Word>(size);
  auto* const q_left = room.take<Word>(size);
  auto* const q_right = room.take<Word>(size);
  auto* const k_columns = room.take<Word>(size);
  auto* const k_right = room.take<Word>(size);
  auto* const v_columns = room.take<Word>(size);
  auto* const dys = room.take<float>(size);
  auto* const dy_left = room.take<Word>(size);
  auto* const dy_right = room.take<Word>(size);
  auto* const dks = room.take<float>(size + n.wide_d);
  auto* const dvs = room.take<float>(size);
  auto* const p = room.take<float>(block);   // weights, after dropout
  auto* const ds = room.take<float>(block);  // gradient of the weights, then of the scores
  auto* const p_across = words_of<Word>(p, block, room);
  auto* const ds_along = words_of<Word>(ds, block, room);
  auto* const ds_across = words_of<Word>(ds, block, room);
  auto* const dqs = room.take<float>(kTileRows * n.wide_d);

  load_queries_or_keys(shape, q, rows);
  widen(n, rows, wide);
  const Left<Word> queries = left_rows(n, wide, q_left);
  right_rows(n, wide, q_right);
  load_keys(shape, k, rows);
  widen(n, rows, wide);
  right_columns(n, left_rows(n, wide, words), k_columns);
  right_rows(n, wide, k_right);
  load_rows(v, shape.qkv_stride, n.t, n.d, rows);
  widen(n, rows, wide);
  right_columns(n, left_rows(n, wide, words), v_columns);
  load_rows(d_out, shape.out_stride, n.t, n.d, rows);
  widen(n, rows, dys);
  const Left<Word> gradients = left_rows(n, dys, dy_left);
  right_rows(n, dys, dy_right);

  // From the last block, which sees all keys and so fills dk and dv; the others add to them.
  for (int64_t first = (n.t - 1) / kTileRows * kTileRows; first >= 0; first -= kTileRows) {
    const int64_t n_rows = std::min(kTileRows, n.t - first);
    const int64_t seen_by_last = first + n_rows, columns = round_up(seen_by_last, kLanes);
    const int64_t even_rows = round_up(n_rows, Lane::kNumbers);
    const bool adds = seen_by_last != n.t;
    const auto scores = [&](const Left<Word>& left, const Word* right, float* to) TRIL_TILE_TARGET {
      multiply<Lane>({left.words + first * left.row, left.row, left.step},
                     n_rows,
                     right,
                     n.wide_t,
                     columns,
                     n.wide_d / Lane::kNumbers,
                     to,
                     n.wide_t,
                     false);
    };
    for (int64_t row = std::max<int64_t>(0, first - kTileRows); row < first; ++row) {
      prefetch_row(out + row * shape.out_stride, n.d);  // the next block's
    }
    scores(queries, k_columns, p);
    scores(gradients, v_columns, ds);  // gradient of the weights after dropout
    for (int64_t i = 0; i < n_rows; ++i) {
      const int64_t row = first + i;
      const float along = product_of_rows(dys + row * n.wide_d, out + row * shape.out_stride, n.d);
      float* const grad = ds + i * n.wide_t;
      score_gradient_row(shape, seed, row, columns, log_sum[row], along, p + i * n.wide_t, grad);
      row_words(grad, columns, ds_along + i * (n.wide_t / Lane::kNumbers));
    }
    for (int64_t i = n_rows; i < even_rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) p[i * n.wide_t + j] = ds[i * n.wide_t + j] = 0.0F;
    }
    for (int64_t i = 0; i < even_rows; i += Lane::kNumbers) {
      const int64_t to = i / Lane::kNumbers * n.wide_t;
      column_words(p + i * n.wide_t, n.wide_t, columns, p_across + to);
      column_words(ds + i * n.wide_t, n.wide_t, columns, ds_across + to);
    }
    // Sums over the block's rows, for each of its columns: (columns, rows) x (rows, D).
    const auto per_key = [&](const Word* left, const Word* right, float* to) TRIL_TILE_TARGET {
      multiply<Lane>({left, 1, n.wide_t},
                     seen_by_last,
                     right + first / Lane::kNumbers * n.wide_d,
                     n.wide_d,
                     n.wide_d,
                     even_rows / Lane::kNumbers,
                     to,
                     n.wide_d,
                     adds);
    };
    per_key(p_across, dy_right, dvs);
    per_key(ds_across, q_right, dks);
    multiply<Lane>({ds_along, n.wide_t / Lane::kNumbers, 1},
                   n_rows,
                   k_right,
                   n.wide_d,
                   n.wide_d,
                   columns / Lane::kNumbers,
                   dqs,
                   n.wide_d,
                   false);
    for (int64_t i = 0; i < n_rows; ++i) {
      const int64_t at = (first + i) * shape.qkv_stride;
      store_query_or_key_gradient(shape, first + i, q + at, dqs + i * n.wide_d, dq + at);
    }
  }
  float* const key_gradients = unshift_key_gradients(shape, dks, n.wide_d);
  for (int64_t i = 0; i < n.t; ++i) {
    const int64_t at = i * shape.qkv_stride;
    store_query_or_key_gradient(shape, i, k + at, key_gradients + i * n.wide_d, dk + at);
    for (int64_t j = 0; j < n.d; ++j) store(dvs[i * n.wide_d + j], dv + at + j);
  }
}

template <typename T>
using LaneOf = std::conditional_t<std::is_same_v<T, float>, FloatLane, PairLane>;

#endif

}  // namespace

template <typename T>
bool has_tiled_kernels(const HeadShape& shape) {
#if defined(__x86_64__)
  static const bool runs =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
  return runs && shape.head_size % LaneOf<T>::kNumbers == 0;
#else
  return false;
#endif
}

template <typename T>
HeadKernels<T> tiled_head_kernels() {
#if defined(__x86_64__)
  return {forward<LaneOf<T>, T>, backward<LaneOf<T>, T>};
#else
  return {};
#endif
}

template bool has_tiled_kernels<float>(const HeadShape&);
template bool has_tiled_kernels<Bf16>(const HeadShape&);
template HeadKernels<float> tiled_head_kernels();
template HeadKernels<Bf16> tiled_head_kernels();

int64_t tiled_scratch_size(const HeadShape& shape) {
  const int64_t t = round_up(shape.n_positions + 1, 16), d = round_up(shape.head_size, 16);
  return (13 * t + kTileRows + 1) * d + 5 * kTileRows * t;
}

}  // namespace tril
