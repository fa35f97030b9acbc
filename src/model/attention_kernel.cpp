#include "attention_kernel.h"

#include <algorithm>
#include <cmath>

#include "attention_rows.h"
#include "attention_tiles.h"
#include "dispatch.h"

// The matrix multiplication of the BLAS that LibTorch brings (Fortran's interface: column-major).
extern "C" void sgemm_(const char* transpose_a,
                       const char* transpose_b,
                       const int* m,
                       const int* n,
                       const int* k,
                       const float* alpha,
                       const float* a,
                       const int* lda,
                       const float* b,
                       const int* ldb,
                       const float* beta,
                       float* c,
                       const int* ldc);

namespace tril {
namespace {

/// All matrices here are row-major with rows of length `ld`; a row-major matrix is the transpose of
/// a column-major one, so C = A B is computed as C^T = B^T A^T.
///   a (m, k) or, transposed, (k, m)   b (k, n) or, transposed, (n, k)   c (m, n)
enum class Op : char { kPlain = 'N', kTransposed = 'T' };
void multiply(Op op_a,
              Op op_b,
              int64_t m,
              int64_t n,
              int64_t k,
              float alpha,
              const float* a,
              int64_t lda,
              const float* b,
              int64_t ldb,
              float beta,
              float* c,
              int64_t ldc) {
  const char ta = static_cast<char>(op_a), tb = static_cast<char>(op_b);
  const int mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
  const int la = static_cast<int>(lda), lb = static_cast<int>(ldb), lc = static_cast<int>(ldc);
  sgemm_(&tb, &ta, &ni, &mi, &ki, &alpha, b, &lb, a, &la, &beta, c, &lc);
}

template <typename T>
TRIL_INLINE void head_forward(const HeadForward<T>& head) {
  const auto& [shape, seed, q, k, v, out, log_sum, scratch] = head;
  const int64_t t = shape.n_positions, d = shape.head_size;
  float* const qs = scratch;                  // (T, D)
  float* const ks = qs + t * d;               // (T + 1, D)
  float* const vs = ks + (t + 1) * d;         // (T, D)
  float* const s = vs + t * d;                // (rows, T): scores, then weights
  float* const y = s + kQueryRows * t;        // (rows, D)
  float* const inverse = y + kQueryRows * d;  // (rows): 1 / sum
  load_queries_or_keys(shape, q, qs);
  load_keys(shape, k, ks);
  load_rows(v, shape.qkv_stride, t, d, vs);

  for (int64_t first = 0; first < t; first += kQueryRows) {
    const int64_t rows = std::min(kQueryRows, t - first), columns = first + rows;
    multiply(Op::kPlain,
             Op::kTransposed,
             rows,
             columns,
             d,
             1.0F,
             qs + first * d,
             d,
             ks,
             d,
             0.0F,
             s,
             t);  // (rows, D) x (columns, D)^T -> (rows, columns)
    for (int64_t i = 0; i < rows; ++i) {
      const RowSum sum = softmax_row(shape, seed, first + i, columns, s + i * t);
      log_sum[first + i] = sum.log_sum;
      inverse[i] = sum.inverse;
    }
    multiply(Op::kPlain, Op::kPlain, rows, d, columns, 1.0F, s, t, vs, d, 0.0F, y, d);
    for (int64_t i = 0; i < rows; ++i) {  // the softmax's division, on D numbers instead of T
      const float* __restrict row = y + i * d;
      T* __restrict to = out + (first + i) * shape.out_stride;
      for (int64_t j = 0; j < d; ++j) store(row[j] * inverse[i], to + j);
    }
  }
}

template <typename T>
TRIL_INLINE void head_backward(const HeadBackward<T>& head) {
  const auto& [shape, seed, q, k, v, out, log_sum, d_out, dq, dk, dv, scratch] = head;
  const int64_t t = shape.n_positions, d = shape.head_size;
  float* const qs = scratch;  // (T, D), as are the next five; keys have one row more
  float* const ks = qs + t * d;
  float* const vs = ks + (t + 1) * d;
  float* const dys = vs + t * d;
  float* const dks = dys + t * d;
  float* const dvs = dks + (t + 1) * d;
  float* const p = dvs + t * d;            // (rows, T): weights, after dropout
  float* const ds = p + kQueryRows * t;    // (rows, T): gradient of the weights, then of the scores
  float* const dqs = ds + kQueryRows * t;  // (rows, D)
  load_queries_or_keys(shape, q, qs);
  load_keys(shape, k, ks);
  load_rows(v, shape.qkv_stride, t, d, vs);
  load_rows(d_out, shape.out_stride, t, d, dys);

  // From the last block, which sees all keys and so fills dk and dv; the others add to them.
  for (int64_t first = (t - 1) / kQueryRows * kQueryRows; first >= 0; first -= kQueryRows) {
    const int64_t rows = std::min(kQueryRows, t - first), columns = first + rows;
    const float add = columns == t ? 0.0F : 1.0F;
    const float* const q_block = qs + first * d;
    const float* const dy_block = dys + first * d;
    multiply(Op::kPlain,
             Op::kTransposed,
             rows,
             columns,
             d,
             1.0F,
             q_block,
             d,
             ks,
             d,
             0.0F,
             p,
             t);  // scores (rows, columns)
    multiply(Op::kPlain,
             Op::kTransposed,
             rows,
             columns,
             d,
             1.0F,
             dy_block,
             d,
             vs,
             d,
             0.0F,
             ds,
             t);  // gradient of the weights after dropout
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      const float along = product_of_rows(dys + row * d, out + row * shape.out_stride, d);
      score_gradient_row(shape, seed, row, columns, log_sum[row], along, p + i * t, ds + i * t);
    }
    multiply(Op::kTransposed, Op::kPlain, columns, d, rows, 1.0F, p, t, dy_block, d, add, dvs, d);
    multiply(Op::kPlain, Op::kPlain, rows, d, columns, 1.0F, ds, t, ks, d, 0.0F, dqs, d);
    multiply(Op::kTransposed, Op::kPlain, columns, d, rows, 1.0F, ds, t, q_block, d, add, dks, d);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = (first + i) * shape.qkv_stride;
      store_query_or_key_gradient(shape, first + i, q + at, dqs + i * d, dq + at);
    }
  }
  float* const key_gradients = unshift_key_gradients(shape, dks, d);
  for (int64_t i = 0; i < t; ++i) {
    const int64_t at = i * shape.qkv_stride;
    store_query_or_key_gradient(shape, i, k + at, key_gradients + i * d, dk + at);
    for (int64_t j = 0; j < d; ++j) store(dvs[i * d + j], dv + at + j);
  }
}

}  // namespace

int64_t head_scratch_size(const HeadShape& shape) {
  const int64_t t = shape.n_positions, d = shape.head_size;
  return std::max(tiled_scratch_size(shape),
                  6 * t * d + 2 * d + 2 * kQueryRows * t + kQueryRows * (d + 1));
}

template <typename T>
HeadKernels<T> head_kernels(const HeadShape& shape) {
  if (has_tiled_kernels<T>(shape)) return tiled_head_kernels<T>();
  return {Versions<head_forward<T>>::best(), Versions<head_backward<T>>::best()};
}

template <typename T>
HeadKernels<T> head_kernels_portable() {
  return {Versions<head_forward<T>>::portable, Versions<head_backward<T>>::portable};
}

template HeadKernels<float> head_kernels(const HeadShape&);
template HeadKernels<Bf16> head_kernels(const HeadShape&);
template HeadKernels<float> head_kernels_portable();
template HeadKernels<Bf16> head_kernels_portable();

void attention_dropout_row(
    uint32_t seed, float dropout, int64_t row, int64_t columns, float* factors) {
  const uint32_t key = row_key(seed, row);
  for (int64_t j = 0; j < columns; ++j) {
    factors[j] = dropout_factor(key, j, dropout_threshold(dropout), 1.0F / (1.0F - dropout));
  }
}

}  // namespace tril
