#include "tokenize_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "encoded_block.h"
#include "ordered_workers.h"
#include "split_writer.h"
#include "tril/base/counter_random.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// An EncodeError, and where in the input it is; the reader knows how to say it.
struct LocatedFault {
  EncodeError error;
  size_t file;
  int64_t offset;
  int64_t line;  ///< 0: no JSON line
};

void parse(TextBlock& block,
           const std::vector<InputFile>& files,
           const DocumentRules& rules,
           EncodedBlock& out) {
  if (block.json_lines) {
    parse_json_lines(
        block, files[block.file].path, rules, out.text, out.pieces, out.carriage_returns);
  } else {
    std::swap(out.text, block.text);
    std::swap(out.pieces, block.pieces);
  }
}

void encode(const Tokenizer& tokenizer, SpecialText special, bool json_lines, EncodedBlock& block) {
  block.ids.reserve(block.text.size() / 2);
  for (const TextPiece& piece : block.pieces) {
    const auto text = std::string_view(block.text).substr(piece.begin, piece.end - piece.begin);
    try {
      tokenizer.encode_to(text, block.ids, special);
    } catch (const EncodeError& error) {
      throw LocatedFault{error,
                         piece.file,
                         json_lines ? error.offset() : piece.file_offset + error.offset(),
                         json_lines ? piece.file_offset : 0};
    }
    block.id_ends.push_back(block.ids.size());
  }
}

/// Sends each document to its part.
class PartWriter {
 public:
  PartWriter(const TokenizeJob& job, const Tokenizer& tokenizer, const fs::path& folder)
      : split_(job.split),
        end_of_text_(job.rules.running_text ? -1 : tokenizer.end_of_text()),
        train_(folder, job.train_name, tokenizer, job.shard_tokens) {
    if (split_.kind != SplitRule::Kind::kNone) {
      validation_.emplace(folder, "validation", tokenizer, job.shard_tokens);
    }
  }

  void write(const EncodedBlock& block) {
    size_t begin = 0;
    for (size_t i = 0; i < block.pieces.size(); ++i) {
      const TextPiece& piece = block.pieces[i];
      if (piece.starts_document) begin_document();
      const auto text_bytes = static_cast<int64_t>(piece.end - piece.begin);
      part().append(std::span(block.ids).subspan(begin, block.id_ends[i] - begin), text_bytes);
      if (piece.ends_document && end_of_text_ >= 0) {
        part().append_end_of_text(static_cast<int32_t>(end_of_text_));
      }
      text_bytes_ += text_bytes;
      begin = block.id_ends[i];
    }
  }

  void finish(TokenizedParts& parts) {
    parts.train = train_.finish();
    parts.train.documents = documents_[0];
    if (!validation_) return;
    parts.validation = validation_->finish();
    parts.validation->documents = documents_[1];
  }

 private:
  void begin_document() {
    to_validation_ = split_.for_validation(documents_[0] + documents_[1], text_bytes_);
    ++documents_[to_validation_ ? 1 : 0];
  }
  ShardWriter& part() { return to_validation_ ? *validation_ : train_; }

  const SplitRule& split_;
  int64_t end_of_text_;
  ShardWriter train_;
  std::optional<ShardWriter> validation_;
  bool to_validation_ = false;
  int64_t text_bytes_ = 0;
  int64_t documents_[2] = {0, 0};
};

/// A block of text and what is made of it. It is used again, with the memory it has: with new ones
/// in each turn the heap falls to pieces, and the longer the text, the more.
struct BlockJob {
  TextBlock text;
  EncodedBlock encoded;
};

/// Reads all blocks, has `work` done on each, with its number, by the workers, and hands the
/// results on in order.
template <typename Work, typename Consume>
void for_each_block(DocumentReader& reader,
                    int64_t threads,
                    const Work& work,
                    const Consume& consume,
                    TextProgress& progress) try {
  using Job = std::shared_ptr<BlockJob>;
  std::vector<Job> spare;
  const auto consume_job = [&](Job job) {
    consume(job->encoded);
    spare.push_back(std::move(job));
  };
  OrderedWorkers<Job> workers(worker_count(threads), consume_job, [&] { progress.poll(); });
  for (int64_t number = 0;; ++number) {
    if (spare.empty()) spare.push_back(std::make_shared<BlockJob>());
    const Job job = std::move(spare.back());
    spare.pop_back();
    if (!reader.next(job->text)) break;
    workers.add([&work, job, number] {
      job->encoded.clear();
      work(job->text, number, job->encoded);
      return job;
    });
  }
  workers.finish();
} catch (const LocatedFault& fault) {
  reader.throw_located(fault.error, fault.file, fault.offset, fault.line);
}

/// Every machine must have read what rank 0 has.
void require_same_text(BlockExchange& exchange, const std::string& fingerprint) {
  if (!exchange.is_first()) return exchange.send(fingerprint);
  for (int64_t rank = 1; rank < exchange.size(); ++rank) {
    const std::string found = exchange.receive(rank);
    if (found == fingerprint) continue;
    throw DataError(fmt::format(
        "rank {}: the text there is not rank 0's (fingerprint {}, rank 0 has {}). Every "
        "machine needs the same files under the same paths",
        rank,
        found,
        fingerprint));
  }
}

}  // namespace

bool SplitRule::for_validation(int64_t document, int64_t bytes_before) const {
  if (kind == Kind::kNone) return false;
  if (kind == Kind::kShare) return bytes_before >= cut;
  // Run k holds the documents i with floor(i * fraction) = k, and gives one of them.
  const auto run_of = [this](int64_t i) {
    return static_cast<int64_t>(std::floor(static_cast<double>(i) * fraction));
  };
  const int64_t run = run_of(document);
  const auto first_of = [&](int64_t k) {
    auto i = static_cast<int64_t>(std::ceil(static_cast<double>(k) / fraction));
    while (i > 0 && run_of(i - 1) >= k) --i;  // the quotient is rounded
    while (run_of(i) < k) ++i;
    return i;
  };
  const int64_t begin = first_of(run);
  const int64_t end = first_of(run + 1);
  const uint64_t bits = random_bits(/*seed=*/0, RandomStream::kSplit, static_cast<uint64_t>(run));
  return document ==
         begin + static_cast<int64_t>(scale_to_range(bits, static_cast<uint64_t>(end - begin)));
}

TokenizedParts tokenize_documents(const TokenizeJob& job,
                                  const Tokenizer& tokenizer,
                                  const fs::path& folder,
                                  TextProgress& progress) {
  const bool leads = job.exchange == nullptr || job.exchange->is_first();
  DocumentRules rules = job.rules;
  if (rules.running_text && job.split.kind == SplitRule::Kind::kShare) {
    rules.running_cut = job.split.cut;
  }
  DocumentReader reader(
      job.files, rules, &tokenizer, job.special, [&](int64_t n_bytes) { progress.add(n_bytes); });
  std::optional<PartWriter> writer;
  if (leads) writer.emplace(job, tokenizer, folder);
  TokenizedParts parts;
  const auto encode_own = [&](TextBlock& block, int64_t number, EncodedBlock& encoded) {
    encoded.owner = job.exchange == nullptr ? 0 : job.exchange->owner_of(number);
    if (job.exchange != nullptr && encoded.owner != job.exchange->rank()) return;
    parse(block, job.files, rules, encoded);
    encode(tokenizer, job.special, block.json_lines, encoded);
  };
  const auto write = [&](const EncodedBlock& block) {
    writer->write(block);
    parts.carriage_returns.crlf += block.carriage_returns.crlf;
    parts.carriage_returns.lone += block.carriage_returns.lone;
  };
  const auto hand_over = [&](const EncodedBlock& block) {
    if (block.owner == job.exchange->rank()) send_block(*job.exchange, block);
  };
  if (leads) {
    for_each_block(
        reader,
        job.threads,
        encode_own,
        [&](const EncodedBlock& block) {
          write(block.owner == 0 ? block : receive_block(*job.exchange, block.owner));
        },
        progress);
    writer->finish(parts);
  } else {
    try {
      for_each_block(reader, job.threads, encode_own, hand_over, progress);
    } catch (const DataError& error) {
      send_failure(*job.exchange, error);
      throw;
    }
  }
  parts.carriage_returns.crlf += reader.carriage_returns().crlf;
  parts.carriage_returns.lone += reader.carriage_returns().lone;
  parts.fingerprint = reader.fingerprint();
  if (job.exchange != nullptr) require_same_text(*job.exchange, parts.fingerprint);
  return parts;
}

ScannedText scan_documents(const TokenizeJob& job,
                           TokenizerLearner* learner,
                           TextProgress& progress) {
  DocumentReader reader(
      job.files, job.rules, nullptr, job.special, [&](int64_t n_bytes) { progress.add(n_bytes); });
  ScannedText scanned;
  int64_t document_begin = 0;  // where the open document begins in its file
  const auto consume = [&](const EncodedBlock& block) {
    for (const TextPiece& piece : block.pieces) {
      if (piece.starts_document) document_begin = piece.file_offset;
      scanned.documents += piece.starts_document ? 1 : 0;
      scanned.text_bytes += static_cast<int64_t>(piece.end - piece.begin);
      if (learner == nullptr) continue;
      const bool lines =
          job.files[piece.file].kind == InputFile::Kind::kJsonLines && !job.rules.running_text;
      try {
        learner->add(std::string_view(block.text).substr(piece.begin, piece.end - piece.begin));
        if (piece.ends_document) learner->end_text();
      } catch (const EncodeError& error) {
        const int64_t offset = lines ? error.offset() : document_begin + error.offset();
        reader.throw_located(error, piece.file, offset, lines ? piece.file_offset : 0);
      }
    }
  };
  for_each_block(
      reader,
      job.threads,
      [&](TextBlock& block, int64_t /*number*/, EncodedBlock& parsed) {
        parse(block, job.files, job.rules, parsed);
      },
      consume,
      progress);
  scanned.fingerprint = reader.fingerprint();
  return scanned;
}

bool knows_text_bytes(const TokenizeJob& job) {
  return job.rules.newlines == Newlines::kKeep &&
         std::none_of(job.files.begin(), job.files.end(), [](const InputFile& file) {
           return file.kind != InputFile::Kind::kText || is_compressed_name(file.path);
         });
}

}  // namespace tril
