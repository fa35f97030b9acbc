#include "attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
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

// ---- numbers on their way from and to words ----------------------------------------------------

/// 16 numbers.
TRIL_TILE __m512 load_floats(const float* x) {
  return _mm512_loadu_ps(x);
}
TRIL_TILE __m512 load_floats(const Bf16* x) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
TRIL_TILE void store_floats(__m512 x, float* out) {
  _mm512_storeu_ps(out, x);
}
TRIL_TILE void store_floats(__m512 x, Bf16* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x)));
}

/// d numbers, rounded where they have to be.
template <typename T>
TRIL_TILE void store_row(const float* x, int64_t d, T* out) {
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) store_floats(_mm512_loadu_ps(x + j), out + j);
  for (; j < d; ++j) store(x[j], out + j);
}

/// 16 numbers, j to j + 15 of a row, as words along it; `row` is where the row's words begin.
TRIL_TILE void store_along(__m512 x, int64_t j, float* row) {
  _mm512_storeu_ps(row + j, x);
}
TRIL_TILE void store_along(__m512 x, int64_t j, uint32_t* row) {
  store_floats(x, reinterpret_cast<Bf16*>(row) + j);
}

/// 16 columns of two rows as words across them, at out + j; of floats the rows stay as they are,
/// `stride` apart.
TRIL_TILE void store_across(__m512 x, __m512 next, int64_t j, int64_t stride, float* out) {
  _mm512_storeu_ps(out + j, x);
  _mm512_storeu_ps(out + stride + j, next);
}
TRIL_TILE void store_across(__m512 x, __m512 next, int64_t j, int64_t /*stride*/, uint32_t* out) {
  const auto low = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x));
  const auto high = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(next));
  _mm512_storeu_si512(out + j,
                      _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                      _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
}

/// Numbers in a word.
template <typename Word>
constexpr int64_t kNumbersIn = std::is_same_v<Word, float> ? 1 : 2;

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

/// The words of T rows of D numbers each, `stride` apart: a left matrix to be summed over D. `room`
/// holds one row; `prepare(i, row)` changes row i before it becomes words.
template <typename Word, typename T, typename Prepare>
TRIL_TILE Left<Word> left_rows(
    const Sizes& n, const T* from, int64_t stride, float* room, Word* out, const Prepare& prepare) {
  constexpr int64_t kAhead = 16;  // rows; their cache lines are on their way at once
  const int64_t width = n.wide_d / kNumbersIn<Word>, whole = n.d / kLanes * kLanes;
  for (int64_t j = whole; j < n.wide_d; ++j) room[j] = 0.0F;
  for (int64_t i = 0; i < n.t; ++i) {
    const T* row = from + i * stride;
    if (i + kAhead < n.t) prefetch_row(row + kAhead * stride, n.d);
    for (int64_t j = 0; j < whole; j += kLanes) _mm512_storeu_ps(room + j, load_floats(row + j));
    for (int64_t j = whole; j < n.d; ++j) room[j] = to_float(row[j]);
    prepare(i, room);
    for (int64_t j = 0; j < n.wide_d; j += kLanes) {
      store_along(_mm512_loadu_ps(room + j), j, out + i * width);
    }
  }
  std::memset(out + n.t * width, 0, static_cast<size_t>((n.wide_t - n.t) * width) * sizeof(Word));
  return {out, width, 1};
}

/// Queries or keys, normalised and rotated.
template <typename Word, typename T>
TRIL_TILE Left<Word> turned_rows(
    const HeadShape& shape, const Sizes& n, const T* from, float* room, Word* out) {
  const auto turn = [&](int64_t i, float* row) TRIL_TILE_TARGET { turn_row(shape, i, row); };
  return left_rows(n, from, shape.qkv_stride, room, out, turn);
}

template <typename Word, typename T>
TRIL_TILE Left<Word> plain_rows(
    const Sizes& n, const T* from, int64_t stride, float* room, Word* out) {
  return left_rows(n, from, stride, room, out, [](int64_t, float*) TRIL_TILE_TARGET {});
}

/// Keys as the scores see them: with key_shift the first one twice and the last one not at all.
/// `out` has room for a row more.
template <typename Word, typename T>
TRIL_TILE Left<Word> key_rows(
    const HeadShape& shape, const Sizes& n, const T* from, float* room, Word* out) {
  if (shape.key_shift == 0) return turned_rows(shape, n, from, room, out);
  const int64_t width = n.wide_d / kNumbersIn<Word>;
  turned_rows(shape, n, from, room, out + width);
  std::memcpy(out, out + width, static_cast<size_t>(width) * sizeof(Word));
  std::memset(out + n.t * width, 0, static_cast<size_t>((n.wide_t - n.t) * width) * sizeof(Word));
  return {out, width, 1};
}

/// A right matrix to be summed over T, from the words of its rows: word k of column j at
/// k * wide_d + j. Floats lie so already.
TRIL_TILE const float* right_rows(const Sizes& /*n*/, const Left<float>& rows, float* /*out*/) {
  return rows.words;
}
TRIL_TILE const uint32_t* right_rows(const Sizes& n, const Left<uint32_t>& rows, uint32_t* out) {
  for (int64_t i = 0; i < n.wide_t; i += 2) {
    const auto* row = reinterpret_cast<const Bf16*>(rows.words + i * rows.row);
    for (int64_t j = 0; j < n.wide_d; j += kLanes) {
      const auto half = [&](const Bf16* x) TRIL_TILE_TARGET {
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
      };
      const __m512i low = half(row + j), high = half(row + n.wide_d + j);
      _mm512_storeu_si512(out + i / 2 * n.wide_d + j,
                          _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
  return out;
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
TRIL_TILE const Word* right_columns(const Sizes& n, const Left<Word>& rows, Word* out) {
  for (int64_t i = 0; i < n.wide_t; i += 4) {
    for (int64_t k = 0; k < rows.row; k += 4) {
      transpose_4x4(rows.words + i * rows.row + k, rows.row, out + k * n.wide_t + i, n.wide_t);
    }
  }
  return out;
}

// ---- rows of scores ----------------------------------------------------------------------------

/// exp_not_positive() of 16 numbers.
TRIL_TILE __m512 exp_of(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-87.0F), x);  // in this order NaN stays
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.0F / 720.0F);
  for (const float c : {1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F}) {
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  }
  return _mm512_scalef_ps(p, n);
}

/// Lanes of columns j to j + 15 that row i sees, up to its own.
TRIL_TILE __mmask16 seen_lanes(int64_t i, int64_t j) {
  const int64_t n = i + 1 - j;
  return n >= kLanes ? 0xFFFF : n <= 0 ? 0 : static_cast<__mmask16>((1U << n) - 1U);
}

/// softmax_row(), whose weights become words along the row.
template <typename Word>
TRIL_TILE RowSum softmax_words(
    const HeadShape& shape, uint32_t seed, int64_t i, int64_t columns, float* row, Word* out) {
  if (shape.dropout > 0.0F) {
    const RowSum sum = softmax_row(shape, seed, i, columns, row);
    for (int64_t j = 0; j < columns; j += kLanes) store_along(_mm512_loadu_ps(row + j), j, out);
    return sum;
  }
  __m512 most = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j <= i; j += kLanes) {
    most = _mm512_mask_max_ps(most, seen_lanes(i, j), most, _mm512_loadu_ps(row + j));
  }
  const float highest = _mm512_reduce_max_ps(most);
  const __m512 top = _mm512_set1_ps(highest), scale = _mm512_set1_ps(shape.scale);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t j = 0; j < columns; j += kLanes) {
    const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + j), top), scale);
    const __m512 weights = _mm512_maskz_mov_ps(seen_lanes(i, j), exp_of(x));
    sums = _mm512_add_ps(sums, weights);
    store_along(weights, j, out);
  }
  const float sum = _mm512_reduce_add_ps(sums);
  return {highest * shape.scale + std::log(sum), 1.0F / sum};
}

/// A block of rows of scores, `stride` apart.
struct ScoreBlock {
  const HeadShape& shape;
  uint32_t seed;
  int64_t first, rows, columns, stride;
  const float *log_sum, *along;  ///< of its rows
};

/// score_gradient_row() of a block, two rows at a time: the weights become words across the rows,
/// and the gradient of the scores words along and across them. A missing last row counts as zeros.
template <typename Lane, typename Word>
TRIL_TILE void score_gradient_words(const ScoreBlock& block,
                                    float* scores,
                                    float* grad,
                                    Word* p_across,
                                    Word* ds_along,
                                    Word* ds_across) {
  const HeadShape& shape = block.shape;
  const int64_t stride = block.stride, words = stride / Lane::kNumbers;
  const __m512 scale = _mm512_set1_ps(shape.scale);
  for (int64_t i = 0; i < block.rows; i += 2) {
    const int64_t rows = std::min<int64_t>(2, block.rows - i);
    if (shape.dropout > 0.0F) {
      for (int64_t r = i; r < i + rows; ++r) {
        score_gradient_row(shape,
                           block.seed,
                           block.first + r,
                           block.columns,
                           block.log_sum[r],
                           block.along[r],
                           scores + r * stride,
                           grad + r * stride);
      }
    }
    for (int64_t j = 0; j < block.columns; j += kLanes) {
      __m512 p[2], ds[2];
      for (int64_t r = 0; r < 2; ++r) {
        const int64_t row = std::min(i + r, block.rows - 1);
        const __mmask16 lanes = r < rows ? seen_lanes(block.first + row, j) : 0;
        p[r] = _mm512_maskz_loadu_ps(lanes, scores + row * stride + j);
        ds[r] = _mm512_maskz_loadu_ps(lanes, grad + row * stride + j);
        if (shape.dropout > 0.0F) continue;  // they are ready
        const __m512 x = _mm512_fmsub_ps(p[r], scale, _mm512_set1_ps(block.log_sum[row]));
        p[r] = _mm512_maskz_mov_ps(lanes, exp_of(x));
        ds[r] = _mm512_mul_ps(_mm512_mul_ps(p[r], scale),
                              _mm512_sub_ps(ds[r], _mm512_set1_ps(block.along[row])));
      }
      store_along(ds[0], j, ds_along + i * words);
      store_along(ds[1], j, ds_along + (i + 1) * words);
      store_across(p[0], p[1], j, stride, p_across + i * words);
      store_across(ds[0], ds[1], j, stride, ds_across + i * words);
    }
  }
}

// ---- the kernels -------------------------------------------------------------------------------

template <typename Lane, typename T>
TRIL_TILE_TARGET void forward(const HeadForward<T>& head) {
  const auto& [shape, seed, q, k, v, out, log_sum, scratch] = head;
  using Word = typename Lane::Word;
  const Sizes n(shape);
  const int64_t size = n.wide_t * n.wide_d, block = kTileRows * n.wide_t;
  Room room(scratch);
  auto* const row = room.take<float>(n.wide_d);
  auto* const words = room.take<Word>(size + n.wide_d);
  auto* const s = room.take<float>(block);  // scores
  auto* const p = room.take<Word>(block);   // weights
  auto* const y = room.take<float>(kTileRows * n.wide_d);

  const Word* const k_columns =
      right_columns(n, key_rows(shape, n, k, row, words), room.take<Word>(size));
  const Word* const v_rows = right_rows(
      n, plain_rows(n, v, shape.qkv_stride, row, room.take<Word>(size)), room.take<Word>(size));
  const Left<Word> queries = turned_rows(shape, n, q, row, words);

  for (int64_t first = 0; first < n.t; first += kTileRows) {
    const int64_t n_rows = std::min(kTileRows, n.t - first);
    const int64_t columns = round_up(first + n_rows, kLanes);
    const int64_t p_row = n.wide_t / Lane::kNumbers;
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
      float* const scores = s + i * n.wide_t;
      const RowSum sum = softmax_words(shape, seed, first + i, columns, scores, p + i * p_row);
      log_sum[first + i] = sum.log_sum;
      inverse[i] = sum.inverse;
    }
    multiply<Lane>({p, p_row, 1},
                   n_rows,
                   v_rows,
                   n.wide_d,
                   n.wide_d,
                   columns / Lane::kNumbers,
                   y,
                   n.wide_d,
                   false);
    for (int64_t i = 0; i < n_rows; ++i) {  // the softmax's division, on D numbers instead of T
      float* const result = y + i * n.wide_d;
      for (int64_t j = 0; j < n.wide_d; ++j) result[j] *= inverse[i];
      store_row(result, n.d, out + (first + i) * shape.out_stride);
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
  auto* const row = room.take<float>(n.wide_d);
  auto* const along = room.take<float>(n.t);  // sum(dy * y) of each row
  auto* const dks = room.take<float>(size + n.wide_d);
  auto* const dvs = room.take<float>(size);
  auto* const p = room.take<float>(block);   // scores
  auto* const ds = room.take<float>(block);  // gradient of the weights
  auto* const p_across = room.take<Word>(block);
  auto* const ds_along = room.take<Word>(block);
  auto* const ds_across = room.take<Word>(block);
  auto* const dqs = room.take<float>(kTileRows * n.wide_d);
  const auto take = [&] { return room.take<Word>(size + n.wide_d); };

  const Left<Word> queries = turned_rows(shape, n, q, row, take());
  const Word* const q_right = right_rows(n, queries, take());
  const Left<Word> keys = key_rows(shape, n, k, row, take());
  const Word* const k_columns = right_columns(n, keys, take());
  const Word* const k_right = right_rows(n, keys, take());
  const Left<Word> values = plain_rows(n, v, shape.qkv_stride, row, take());
  const Word* const v_columns = right_columns(n, values, take());
  const Left<Word> gradients = plain_rows(n, d_out, shape.out_stride, row, take());
  const Word* const dy_right = right_rows(n, gradients, take());
  for (int64_t i = 0; i < n.t; ++i) {
    const int64_t at = i * shape.out_stride;
    along[i] = product_of_rows(d_out + at, out + at, n.d);
  }

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
    scores(queries, k_columns, p);
    scores(gradients, v_columns, ds);  // gradient of the weights after dropout
    score_gradient_words<Lane>(
        {shape, seed, first, n_rows, columns, n.wide_t, log_sum + first, along + first},
        p,
        ds,
        p_across,
        ds_along,
        ds_across);
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
      turn_gradient_back(shape, first + i, q + at, dqs + i * n.wide_d);
      store_row(dqs + i * n.wide_d, n.d, dq + at);
    }
  }
  float* const key_gradients = unshift_key_gradients(shape, dks, n.wide_d);
  for (int64_t i = 0; i < n.t; ++i) {
    const int64_t at = i * shape.qkv_stride;
    turn_gradient_back(shape, i, k + at, key_gradients + i * n.wide_d);
    store_row(key_gradients + i * n.wide_d, n.d, dk + at);
    store_row(dvs + i * n.wide_d, n.d, dv + at);
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
  return (11 * t + 12 + kTileRows) * d + t + 5 * kTileRows * t;
}

}  // namespace tril
