#pragma once
// What a model's weights look like: sizes, spectra, and which tokens its embedding holds alike.

#include <cstdint>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/model/gpt.h"

namespace tril {

struct WeightSummary {
  std::string name;
  std::vector<int64_t> shape;
  double rms = 0;
  double largest = 0;  ///< largest absolute value
  /// Of matrices only. Singular values, falling, at most 64 of them evenly spaced by rank.
  std::vector<double> spectrum;
  double spectral_norm = 0;  ///< the largest singular value
  double stable_rank = 0;    ///< squared Frobenius norm / squared spectral norm
};

/// Every parameter once. Singular values come from the smaller Gram matrix in float64, exact to
/// about 1e-8 of the largest. CheckpointError for weights that are not finite.
std::vector<WeightSummary> summarize_weights(const GPT& model);

struct TokenNeighbours {
  int64_t id = 0;
  struct Neighbour {
    int64_t id = 0;
    double cosine = 0;  ///< of the two rows of the token embedding
  };
  std::vector<Neighbour> nearest;  ///< falling, without the token itself
};

/// The `n` nearest rows of the token embedding for each of `ids`.
std::vector<TokenNeighbours> embedding_neighbours(const GPT& model,
                                                  const std::vector<int64_t>& ids,
                                                  int64_t vocab_size,
                                                  int64_t n);

struct WeightReport {
  std::string run;
  int64_t step = 0;
  std::vector<WeightSummary> weights;
  std::vector<TokenNeighbours> neighbours;
  std::vector<std::string> tokens;  ///< bytes of every id of the vocabulary
};

std::string weight_page(const WeightReport& report);
OrderedJson weight_json(const WeightReport& report);
/// name,shape,rms,largest,spectral_norm,stable_rank
std::string weight_csv(const WeightReport& report);
std::string weight_text(const WeightReport& report);

}  // namespace tril
