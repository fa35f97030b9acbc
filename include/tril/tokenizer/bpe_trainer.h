#pragma once
// Learns the merges of a byte-level BPE vocabulary from text.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {

struct BpeTrainOptions {
  /// All ids: 256 bytes, one for each merge, the special tokens.
  int64_t vocab_size = 0;
  /// Get the last ids, in this order.
  std::vector<std::string> special = {"<|endoftext|>"};
  /// kBecomesId: the text of a special token inside the training text ends a piece and is not
  /// learned.
  SpecialText special_text = SpecialText::kIsText;
  /// A pair that occurs less often is not merged.
  int64_t min_frequency = 2;
  int64_t threads = 1;  ///< for counting
  /// What the distinct pieces may take, for each thread. Beyond it, of the pieces of more than 8
  /// bytes every second, fourth, ... is kept, chosen by its hash, and counts twice, four times, ...
  int64_t piece_memory_bytes = int64_t{1} << 30;
};

/// Counts pieces (words with the space before them, by GPT-2's split pattern) and merges the most
/// frequent pair of neighbours, again and again; of equally frequent pairs the one with the
/// smallest ids (left, then right). The result depends on the texts only: not on the order they
/// come in, the sizes of the chunks, or the number of threads. Source: Sennrich et al. 2016,
/// algorithm 1. Time: one pass over the text, then O(1) for every occurrence in the distinct pieces
/// that is merged. Memory: about 12 bytes for each byte of the distinct pieces.
class BpeTrainer {
 public:
  /// Throws ConfigError for a vocab_size without room for the bytes and special tokens, or above
  /// kMaxBpeVocabulary, and for special tokens that are empty or occur twice.
  explicit BpeTrainer(BpeTrainOptions options);
  ~BpeTrainer();

  /// The next chunk of the current text; may end anywhere. Returns when it is taken over, not
  /// counted.
  void add(std::string_view chunk);
  /// The current text ends; no piece goes over into the next.
  void end_text();

  /// Ends the text and learns. `progress(merges done, merges wanted)`; `stop` is asked between
  /// merges, and ends the learning by Stopped. The vocabulary is smaller than asked for where no
  /// pair is left that occurs min_frequency times. Throws DataError when there was no text. Call it
  /// once.
  BpeVocabulary train(const std::function<void(int64_t, int64_t)>& progress = {},
                      const std::function<bool()>& stop = {});

  /// Thrown by train() when it was asked to stop.
  struct Stopped {};

  /// Of the counting: 1 unless the distinct pieces took more than piece_memory_bytes (known after
  /// train()).
  int64_t thinning() const;
  /// Distinct pieces, and the bytes of all of them (known after train()).
  int64_t distinct_pieces() const;
  int64_t text_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
