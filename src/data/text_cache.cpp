#include "tril/data/text_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "cache_entry.h"
#include "tokenize_documents.h"
#include "tril/base/file.h"
#include "tril/data/hdf5_tokens.h"
#include "tril/data/nanogpt_meta.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// A new number makes every cached text anew: raise it when the same text would give other files.
constexpr int kFormatVersion = 2;

/// Identifies a file without reading it: where it is, how large, and when it was written.
std::string identity_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw DataError(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  }
  return fmt::format("{}\n{}\n{}.{}",
                     fs::absolute(path).lexically_normal().string(),
                     info.st_size,
                     info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

void write_hdf5_tokens(const fs::path& path,
                       const Tokenizer& tokenizer,
                       const fs::path& folder,
                       const TextHooks& hooks) {
  const Hdf5Tokens tokens(path);
  TokenFileWriter writer(folder / kTrainFile,
                         tokenizer.vocab_size(),
                         tokenizer.fingerprint(),
                         tokenizer.end_of_text());
  TextProgress progress(hooks, std::max<int64_t>(tokens.size(), 1));
  constexpr int64_t kIdsAtOnce = int64_t{1} << 20;
  std::vector<int64_t> ids;
  std::vector<int32_t> narrow;
  for (int64_t begin = 0; begin < tokens.size(); begin += kIdsAtOnce) {
    ids.resize(static_cast<size_t>(std::min(kIdsAtOnce, tokens.size() - begin)));
    tokens.read(begin, ids);
    narrow.clear();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= tokenizer.vocab_size()) {
        throw DataError(fmt::format(
            "'{}': token {} is {}, outside the {} ids of the {} tokenizer (data.tokenizer)",
            path.string(),
            begin + static_cast<int64_t>(i),
            ids[i],
            tokenizer.vocab_size(),
            tokenizer.kind()));
      }
      narrow.push_back(static_cast<int32_t>(ids[i]));
    }
    writer.append(narrow);
    progress.add(static_cast<int64_t>(ids.size()));
  }
  writer.finish();
  write_file_atomically(folder / kTokenizerFile, dump_json(tokenizer.to_json()));
}

/// The source with everything that decides what its tokens are.
struct Text {
  TextSource source;
  int64_t text_bytes = 0;
  int64_t validation_bytes = 0;        // of the separate file; 0 without one
  int64_t cut = -1;                    // where validation begins in the text; -1: nowhere
  std::string fingerprint;             // of the text
  std::string validation_fingerprint;  // of the separate file; empty without one

  bool has_validation() const { return cut >= 0 || source.validation_text; }
  std::string all_fingerprint() const {
    return source.validation_text ? tril::fingerprint(fingerprint + validation_fingerprint)
                                  : fingerprint;
  }
};

/// Reads a text through for its fingerprint; `n_bytes` receives its size.
std::string hash_text(const fs::path& path, const TextHooks& hooks, int64_t* n_bytes) {
  TextReader reader({path}, Newlines::kKeep);
  const TextHooks only_stop{.stop = hooks.stop};
  TextProgress progress(only_stop, reader.file_bytes());
  progress.watch(reader);
  std::string piece;
  while (reader.read(piece, TextReader::kPieceBytes) > 0) piece.clear();
  reader.check_unchanged("");
  *n_bytes = reader.offset();
  return reader.fingerprint();
}

Text examine(const TextSource& source, const TextHooks& hooks) {
  Text text;
  text.source = source;
  text.fingerprint = hash_text(source.text, hooks, &text.text_bytes);
  if (source.validation_text) {
    text.validation_fingerprint = hash_text(*source.validation_text, hooks, &text.validation_bytes);
  } else if (source.validation_begin) {
    text.cut = *source.validation_begin;
    if (text.cut < 0 || text.cut > text.text_bytes) {
      throw DataError(
          fmt::format("the validation part of '{}' should begin at byte {}, but the "
                      "text has {} bytes",
                      source.text.string(),
                      text.cut,
                      text.text_bytes));
    }
  } else if (source.validation_fraction != 0.0) {
    text.cut = validation_begin(text.text_bytes, source.validation_fraction);
  }
  return text;
}

/// `tokenizer`: its fingerprint, or the name of one that is learned from the text itself.
std::string entry_key(const Text& text, const std::string& tokenizer) {
  return fingerprint(fmt::format("tril text cache {}\ntext {}\nvalidation {}\ncut {}\n{}\n",
                                 kFormatVersion,
                                 text.fingerprint,
                                 text.validation_fingerprint,
                                 text.cut,
                                 tokenizer));
}

TokenizeJob job_of(const std::vector<fs::path>& files) {
  TokenizeJob job;
  for (const fs::path& file : files) job.files.push_back({file, InputFile::Kind::kText});
  return job;
}

/// Tokenises one file of the source; the text must still be what it was when it was examined.
CarriageReturns write_part(const TokenizeJob& job,
                           const Tokenizer& tokenizer,
                           const fs::path& folder,
                           TextProgress& progress,
                           const std::string& expected_fingerprint) {
  const TokenizedParts parts = tokenize_documents(job, tokenizer, folder, progress);
  if (parts.fingerprint != fingerprint(expected_fingerprint)) {
    throw DataError(fmt::format("the text changed while it was being read: '{}'; start again",
                                job.files.front().path.string()));
  }
  return parts.carriage_returns;
}

void write_tokens(const Text& text,
                  const Tokenizer& tokenizer,
                  const fs::path& folder,
                  TextProgress& progress,
                  const TextHooks& hooks) {
  TokenizeJob job = job_of({text.source.text});
  if (text.cut >= 0) job.split = {.kind = SplitRule::Kind::kShare, .cut = text.cut};
  CarriageReturns found = write_part(job, tokenizer, folder, progress, text.fingerprint);
  if (text.source.validation_text) {
    TokenizeJob other = job_of({*text.source.validation_text});
    other.train_name = "validation";
    const CarriageReturns more =
        write_part(other, tokenizer, folder, progress, text.validation_fingerprint);
    found.crlf += more.crlf;
    found.lone += more.lone;
  }
  write_file_atomically(folder / kTokenizerFile, dump_json(tokenizer.to_json()));
  const std::string notice = describe_carriage_returns(found, Newlines::kKeep);
  if (!notice.empty() && hooks.notice) hooks.notice(notice);
}

TokenizerPtr learn(const std::string& name,
                   const std::vector<fs::path>& texts,
                   TextProgress& progress,
                   const TextHooks& hooks) {
  const auto learner = make_learner(name, {.documents = false});
  for (const fs::path& text : texts) scan_documents(job_of({text}), learner.get(), progress);
  TokenizerPtr result = learner->learn([&] { progress.poll(); });
  const std::string remark = learner->remark();
  if (!remark.empty() && hooks.notice) hooks.notice(remark);
  return result;
}

/// `tokenizer` null: the one that is learned from the text. One that is given may be that one too.
TokenizedText tokenize(const TextSource& source,
                       const TokenizerPtr& tokenizer,
                       const std::string& learned,
                       const TextHooks& hooks) try {
  const Text text = examine(source, hooks);
  const fs::path root = make_cache_root();

  const auto finished = [&](TokenizedText result, bool made_now) {
    result.text_fingerprint = text.all_fingerprint();
    result.made_now = made_now;
    return result;
  };
  const CacheEntry from_text(root, entry_key(text, learned));
  if (tokenizer && (tokenizer->kind() == "char" || learned != "char")) {
    // Usually the model's vocabulary was made from this very text: one entry serves both.
    std::optional<TokenizedText> found = from_text.open(text.has_validation());
    if (found && found->tokenizer->fingerprint() == tokenizer->fingerprint()) {
      return finished(std::move(*found), /*made_now=*/false);
    }
  }
  const CacheEntry entry =
      tokenizer ? CacheEntry(root, entry_key(text, tokenizer->fingerprint())) : from_text;
  if (auto found = entry.open(text.has_validation())) return finished(std::move(*found), false);

  const FileLock lock = entry.lock(hooks, "which is tokenizing this text");
  if (auto found = entry.open(text.has_validation())) return finished(std::move(*found), false);
  int64_t bytes = checked_text_file_size(source.text);
  if (source.validation_text) bytes += checked_text_file_size(*source.validation_text);
  TextProgress progress(hooks, tokenizer ? bytes : 2 * bytes);
  entry.make([&](const fs::path& folder) {
    std::vector<fs::path> texts = {text.source.text};
    if (text.source.validation_text) texts.push_back(*text.source.validation_text);
    const TokenizerPtr made = tokenizer ? tokenizer : learn(learned, texts, progress, hooks);
    write_tokens(text, *made, folder, progress, hooks);
  });
  return finished(entry.reopen(text.has_validation()), true);
} catch (const fs::filesystem_error& error) {
  throw_cache_error(error);
}

}  // namespace

TokenizedText tokenize_cached(const TextSource& source,
                              const std::string& tokenizer,
                              const TextHooks& hooks) {
  if (is_learned(tokenizer)) return tokenize(source, nullptr, tokenizer, hooks);
  return tokenize(source, make_data_tokenizer(tokenizer), "char", hooks);
}

TokenizedText tokenize_cached(const TextSource& source,
                              std::shared_ptr<const Tokenizer> tokenizer,
                              const TextHooks& hooks,
                              const std::string& learned) {
  return tokenize(source, tokenizer, learned, hooks);
}

std::shared_ptr<const Tokenizer> learn_tokenizer(const std::string& name,
                                                 const std::vector<fs::path>& texts,
                                                 const TextHooks& hooks) {
  int64_t bytes = 0;
  for (const fs::path& text : texts) bytes += checked_text_file_size(text);
  TextProgress progress(hooks, bytes);
  return learn(name, texts, progress, hooks);
}

TokenFile hdf5_cached(const fs::path& path,
                      const std::shared_ptr<const Tokenizer>& tokenizer,
                      const TextHooks& hooks) try {
  const std::string key = fingerprint(fmt::format(
      "tril hdf5 cache {}\n{}\n{}\n", kFormatVersion, identity_of(path), tokenizer->fingerprint()));
  const CacheEntry entry(make_cache_root(), key);
  if (auto found = entry.open(/*has_validation=*/false)) return found->train;
  const FileLock lock = entry.lock(hooks, "which is converting this file");
  if (auto found = entry.open(/*has_validation=*/false)) return found->train;
  entry.make([&](const fs::path& folder) { write_hdf5_tokens(path, *tokenizer, folder, hooks); });
  return entry.reopen(/*has_validation=*/false).train;
} catch (const fs::filesystem_error& error) {
  throw_cache_error(error);
}

}  // namespace tril
