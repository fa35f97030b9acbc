#include "tril/tokenizer/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpt2_split.h"
#include "pair_index.h"
#include "piece_counter.h"
#include "special_finder.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr size_t kJobBytes = size_t{1} << 20;

/// Threads that count the pieces of chunks, each in a counter of its own.
class Counters {
 public:
  using Count = std::function<void(std::string_view, PieceCounter&)>;

  Counters(int64_t n_threads, int64_t max_bytes, Count count) : count_(std::move(count)) {
    for (int64_t i = 0; i < std::max<int64_t>(n_threads, 1); ++i) counters_.emplace_back(max_bytes);
    if (counters_.size() == 1) return;
    for (PieceCounter& counter : counters_)
      threads_.emplace_back([this, &counter] { work(counter); });
  }
  ~Counters() { stop(); }

  void submit(std::string chunk) {
    if (threads_.empty()) return count_(chunk, counters_.front());
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [this] { return jobs_.size() < 2 * threads_.size() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    jobs_.push_back(std::move(chunk));
    added_.notify_one();
  }

  /// All counts in one counter.
  PieceCounter& finish() {
    stop();
    if (failure_) std::rethrow_exception(failure_);
    for (size_t i = 1; i < counters_.size(); ++i) counters_[0].merge(counters_[i]);
    return counters_[0];
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    added_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void work(PieceCounter& counter) {
    while (true) {
      std::string chunk;
      {
        std::unique_lock lock(mutex_);
        added_.wait(lock, [this] { return !jobs_.empty() || is_ending_; });
        if (jobs_.empty()) return;
        chunk = std::move(jobs_.front());
        jobs_.pop_front();
      }
      taken_.notify_one();
      try {
        count_(chunk, counter);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        taken_.notify_all();
      }
    }
  }

  Count count_;
  std::deque<PieceCounter> counters_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable taken_;
  std::deque<std::string> jobs_;
  bool is_ending_ = false;
  std::exception_ptr failure_;
};

/// The learning itself: from distinct pieces and their counts to merges.
class MergeLearner {
 public:
  /// Empties `pieces`.
  MergeLearner(PieceCounter& pieces, BpeVocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      byte_ids_[static_cast<uint8_t>(vocabulary.tokens[id][0])] = static_cast<uint32_t>(id);
      row_.length.push_back(1);
      id_of_.emplace(vocabulary.tokens[id], static_cast<int32_t>(id));
    }
    lay_out(pieces);
    pieces = PieceCounter(0);
    index_pairs();
  }

  /// Merges the most frequent pair; false when none occurs `min_frequency` times.
  bool merge_one(int64_t min_frequency) {
    PairIndex::Entry* best = pairs_.next(std::max<int64_t>(min_frequency, 1));
    if (best == nullptr) return false;
    const auto left = static_cast<uint32_t>(best->key >> 32);
    const auto right = static_cast<uint32_t>(best->key & 0xFFFFFFFFU);
    std::vector<uint32_t> places = std::exchange(best->places, {});
    best->count = 0;
    const PairKey key = best->key;
    const uint32_t result = add_token(left, right);
    // Where the result was a token before, places of its pairs came in two turns.
    if (!std::is_sorted(places.begin(), places.end())) std::sort(places.begin(), places.end());
    for (const uint32_t place : places) merge_at(place, left, right, result);
    pairs_.at(key).count = 0;  // overlapping occurrences ("aaa") have gone with the merged ones
    pairs_.requeue();
    return true;
  }

 private:
  /// Pieces of equal counts stand together: a place's count is found by its group.
  void lay_out(const PieceCounter& pieces) {
    struct Piece {
      int64_t count;
      std::string_view bytes;
    };
    std::vector<Piece> order;
    size_t n_bytes = 0;
    pieces.for_each([&](std::string_view piece, int64_t count) {
      if (piece.size() < 2) return;
      order.push_back({count, piece});
      n_bytes += piece.size();
    });
    if (n_bytes + order.size() + 1 >= TokenRow::kInside) {
      throw ResourceError("the distinct pieces of the text have more than 4 GB: use less text");
    }
    std::sort(order.begin(), order.end(), [](const Piece& a, const Piece& b) {
      return a.count < b.count;
    });
    row_.slots.reserve(n_bytes + order.size() + 1);
    row_.slots.push_back(TokenRow::kEdge);
    for (const auto& [count, piece] : order) {
      if (groups_.empty() || groups_.back().count != count) {
        groups_.push_back({static_cast<uint32_t>(row_.slots.size()), count});
      }
      for (const char byte : piece) {
        row_.slots.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
      }
      row_.slots.push_back(TokenRow::kEdge);
    }
  }

  void index_pairs() {
    const auto& slots = row_.slots;
    const auto for_each_pair = [&](const auto& take) {
      size_t group = 0;
      for (uint32_t i = 1; i + 1 < slots.size(); ++i) {
        while (group + 1 < groups_.size() && i >= groups_[group + 1].begin) ++group;
        if (slots[i] == TokenRow::kEdge || slots[i + 1] == TokenRow::kEdge) continue;
        take(i, pair_key(slots[i], slots[i + 1]), groups_[group].count);
      }
    };
    std::vector<uint32_t> n_places(size_t{1} << 16);
    for_each_pair([&](uint32_t, PairKey key, int64_t count) {
      ++n_places[(key >> 32) << 8 | (key & 0xFF)];
      pairs_.change(key, count);
    });
    for (uint32_t left = 0; left < 256; ++left) {
      for (uint32_t right = 0; right < 256; ++right) {
        const uint32_t n = n_places[left << 8 | right];
        if (n > 0) pairs_.at(pair_key(left, right)).places.reserve(n);
      }
    }
    for_each_pair(
        [&](uint32_t place, PairKey key, int64_t) { pairs_.at(key).places.push_back(place); });
    pairs_.requeue();
  }

  uint32_t add_token(uint32_t left, uint32_t right) {
    std::string bytes = vocabulary_.tokens[left] + vocabulary_.tokens[right];
    const auto next_id = static_cast<int32_t>(vocabulary_.tokens.size());
    const auto [known, is_new] = id_of_.emplace(bytes, next_id);
    if (is_new) {
      row_.length.push_back(static_cast<uint32_t>(bytes.size()));
      vocabulary_.tokens.push_back(std::move(bytes));
    }
    vocabulary_.merges.push_back(
        {static_cast<int32_t>(left), static_cast<int32_t>(right), known->second});
    return static_cast<uint32_t>(known->second);
  }

  void merge_at(uint32_t place, uint32_t left, uint32_t right, uint32_t result) {
    auto& slots = row_.slots;
    if (slots[place] != left) return;  // merged otherwise since
    const uint32_t middle = place + row_.length[left];
    if (slots[middle] != right) return;
    const uint32_t end = middle + row_.length[right];
    const uint32_t before = slots[place - 1];
    const uint32_t after = slots[end];
    const int64_t count = count_at(place);
    if (before != TokenRow::kEdge) {
      pairs_.change(pair_key(before, left), -count);
      pairs_.change(pair_key(before, result), count);
      pairs_.add_place(place - row_.length[before]);
    }
    if (after != TokenRow::kEdge) {
      pairs_.change(pair_key(right, after), -count);
      pairs_.change(pair_key(result, after), count);
      pairs_.add_place(place);
    }
    slots[middle] = TokenRow::kInside;
    slots[place] = result;
    slots[end - 1] = result;
  }

  int64_t count_at(uint32_t place) const {
    const auto after = std::upper_bound(
        groups_.begin(), groups_.end(), place, [](uint32_t at, const Group& group) {
          return at < group.begin;
        });
    return std::prev(after)->count;
  }

  struct Group {
    uint32_t begin;  // slot
    int64_t count;   // of each piece in it
  };

  BpeVocabulary& vocabulary_;
  std::array<uint32_t, 256> byte_ids_{};
  std::unordered_map<std::string, int32_t> id_of_;
  TokenRow row_;
  std::vector<Group> groups_;
  PairIndex pairs_;
};

void validate(const BpeTrainOptions& options) {
  const auto n_special = static_cast<int64_t>(options.special.size());
  if (options.vocab_size < 256 + n_special || options.vocab_size > kMaxBpeVocabulary) {
    throw ConfigError(
        fmt::format("a vocabulary of {} ids: expected {} (256 bytes and {} special token{}) to {}",
                    options.vocab_size,
                    256 + n_special,
                    n_special,
                    n_special == 1 ? "" : "s",
                    kMaxBpeVocabulary));
  }
  std::unordered_set<std::string> seen;
  for (const std::string& token : options.special) {
    if (token.size() > 1 && seen.insert(token).second && !find_invalid_utf8(token)) continue;
    throw ConfigError(fmt::format(
        "the special token \"{}\": expected UTF-8 text of at least two bytes, each only once",
        escape_for_message(token)));
  }
}

}  // namespace

struct BpeTrainer::Impl {
  explicit Impl(BpeTrainOptions chosen)
      : options(std::move(chosen)),
        counters(options.threads,
                 options.piece_memory_bytes,
                 [this](std::string_view text, PieceCounter& counter) { count(text, counter); }) {
    for (const std::string& token : options.special) {
      if (options.special_text == SpecialText::kBecomesId) learned_around.push_back({token, -1});
    }
  }

  /// A part of a text that begins and ends where pieces do.
  void count(std::string_view text, PieceCounter& counter) const {
    SpecialFinder finder(text, learned_around);
    size_t begin = 0;
    while (true) {
      const SpecialFinder::Found found = finder.find(begin);
      const std::string_view part = text.substr(begin, found.begin - begin);
      const char* const end = text.data() + text.size();
      Gpt2Splitter splitter(part);
      for (auto piece = splitter.next(); !piece.empty(); piece = splitter.next()) {
        counter.add(piece, end - piece.data() >= 16);
      }
      if (found.token == nullptr) return;
      begin = found.end();
    }
  }

  void flush(bool at_end) {
    const size_t n_bytes =
        at_end ? pending.size() : special_safe_prefix(pending, learned_around, &gpt2_safe_prefix);
    if (n_bytes == 0) {
      if (pending.size() <= kMaxPieceBytes) return;
      throw DataError(fmt::format(
          "the text has {} bytes without a place where a token must end, such as the end of a "
          "word: is it text? It begins with \"{}\"",
          pending.size(),
          escape_for_message(pending, 40)));
    }
    std::string rest = pending.substr(n_bytes);
    pending.resize(n_bytes);
    text_bytes += static_cast<int64_t>(n_bytes);
    counters.submit(std::move(pending));
    pending = std::move(rest);
  }

  BpeTrainOptions options;
  std::vector<SpecialToken> learned_around;  // not learned, nor what spans them
  std::string pending;                       // of the current text, not counted yet
  size_t flush_bytes = kJobBytes;            // of pending, at which to look for a cut
  int64_t text_bytes = 0;
  int64_t thinning = 1;
  int64_t distinct_pieces = 0;
  Counters counters;  // last: its threads use the others
};

BpeTrainer::BpeTrainer(BpeTrainOptions options) {
  validate(options);
  impl_ = std::make_unique<Impl>(std::move(options));
}
BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::add(std::string_view chunk) {
  while (!chunk.empty()) {
    const size_t n_bytes = std::min(chunk.size(), kJobBytes);
    impl_->pending += chunk.substr(0, n_bytes);
    chunk.remove_prefix(n_bytes);
    // A text without a cut is looked at again only when it has doubled.
    if (impl_->pending.size() < impl_->flush_bytes) continue;
    impl_->flush(/*at_end=*/false);
    impl_->flush_bytes = std::max(kJobBytes, 2 * impl_->pending.size());
  }
}

void BpeTrainer::end_text() {
  impl_->flush(/*at_end=*/true);
  impl_->flush_bytes = kJobBytes;
}

BpeVocabulary BpeTrainer::train(const std::function<void(int64_t, int64_t)>& progress,
                                const std::function<bool()>& stop) {
  end_text();
  const BpeTrainOptions& options = impl_->options;
  PieceCounter& pieces = impl_->counters.finish();
  impl_->thinning = pieces.thinning();
  impl_->distinct_pieces = pieces.distinct();
  if (pieces.distinct() == 0) throw DataError("there is no text to learn a vocabulary from");

  // The 256 bytes in the order of the characters that stand for them, as in GPT-2's vocabulary.
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  std::sort(vocabulary.tokens.begin(),
            vocabulary.tokens.end(),
            [](const std::string& a, const std::string& b) {
              return gpt2_characters(a) < gpt2_characters(b);
            });
  const int64_t n_wanted = options.vocab_size - static_cast<int64_t>(options.special.size());
  MergeLearner learner(pieces, vocabulary);
  const auto n_tokens = [&] { return static_cast<int64_t>(vocabulary.tokens.size()); };
  while (n_tokens() < n_wanted && learner.merge_one(options.min_frequency)) {
    if (stop && stop()) throw Stopped();
    if (progress) progress(n_tokens() - 256, n_wanted - 256);
  }
  for (const std::string& token : options.special) {
    vocabulary.special.push_back({token, static_cast<int64_t>(vocabulary.tokens.size())});
    vocabulary.tokens.push_back(token);
  }
  return vocabulary;
}

int64_t BpeTrainer::thinning() const {
  return impl_->thinning;
}
int64_t BpeTrainer::distinct_pieces() const {
  return impl_->distinct_pieces;
}
int64_t BpeTrainer::text_bytes() const {
  return impl_->text_bytes;
}

}  // namespace tril
