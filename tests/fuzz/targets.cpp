#include "fuzz/targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/base/safetensors.h"
#include "tril/base/token_file.h"
#include "tril/base/utf8.h"
#include "tril/checkpoint/checkpoint_state.h"
#include "tril/checkpoint/manifest.h"
#include "tril/config/run_config.h"
#include "tril/data/nanogpt_meta.h"
#include "tril/interop/huggingface_config.h"
#include "tril/interop/llmc.h"
#include "tril/plot/tensorboard.h"
#include "tril/tokenizer/char_tokenizer.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril::fuzz {
namespace {

/// A claim that must hold for any bytes. Not an assert: release builds of the fuzzers check it too.
void require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: violated: %s\n", claim);
  std::abort();
}

std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Errors of ours are right; all others end the process, and so are found.
template <class Action>
void expect_own_errors(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(!message.empty(), "an error says something");
    // A file of 1 MB must not become a message of 1 MB.
    require(message.size() < 20'000, "a message is short");
    require(!find_invalid_utf8(message), "a message is valid UTF-8");
  }
}

}  // namespace

void fuzz_json(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const Json json = parse_json(view(data, size), "file", FileRole::kConfig);
    const std::string text = dump_json(json);
    require(parse_json(text, "dump", FileRole::kConfig) == json, "JSON survives dump and parse");
  });
}

void fuzz_config(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const RunConfig config =
        run_config_from_json(parse_json(view(data, size), "file", FileRole::kConfig), "file");
    const RunConfig again = run_config_from_json(Json(to_json(config)), "again");
    require(again == config, "a config survives to_json and back");
    require(compare_for_resume(config, again).empty(), "equal configs have no differences");
  });
}

void fuzz_set(const uint8_t* data, size_t size) {
  std::vector<std::string> sets;
  std::string_view text = view(data, size);
  while (!text.empty() && sets.size() < 20) {
    const size_t end = std::min(text.find('\n'), text.size());
    sets.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  expect_own_errors([&] { override_run_config(RunConfig{}, sets); });
}

void fuzz_tokenizer(const uint8_t* data, size_t size) {
  const std::string_view all = view(data, size);
  const size_t end = std::min(all.find('\0'), all.size());
  const std::string_view text = all.substr(std::min(end + 1, all.size()));
  expect_own_errors([&] {
    const auto tokenizer =
        tokenizer_from_json(parse_json(all.substr(0, end), "file", FileRole::kData), "file");
    const int64_t n = tokenizer->vocab_size();
    require(n >= 1, "a vocabulary has an entry");
    require(tokenizer->start_token() >= 0 && tokenizer->start_token() < n,
            "the start token exists");
    tokenizer->token_bytes(0);
    tokenizer->token_bytes(n - 1);
    const auto again = tokenizer_from_json(Json(tokenizer->to_json()), "again");
    require(again->fingerprint() == tokenizer->fingerprint(), "a tokenizer survives to_json");
    const std::vector<int32_t> ids = tokenizer->encode(text);
    for (const int32_t id : ids) require(id >= 0 && id < n, "ids are in the vocabulary");
    require(tokenizer->decode(std::span<const int32_t>(ids)) == text, "decode(encode(x)) = x");
    const size_t safe = tokenizer->safe_prefix(text, /*at_end=*/false);
    require(safe <= text.size(), "a safe prefix is a prefix");
  });
}

void fuzz_token_file(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const auto bytes = std::as_bytes(std::span(data, size));
    const TokenFileHeader header = parse_token_file(bytes, "file");
    require(header.count >= 0 && header.vocab_size >= 1, "counts are not negative");
    require(header.id_bytes == id_bytes_for(header.vocab_size), "the width fits the vocabulary");
    const auto expected = kTokenFileHeaderBytes + static_cast<uint64_t>(header.count) *
                                                      static_cast<uint64_t>(header.id_bytes);
    require(expected == size, "the ids fill the file");
  });
}

void fuzz_safetensors(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const std::string_view bytes = view(data, size);
    const SafetensorsHeader header = parse_safetensors(bytes, "file");
    require(header.data_offset <= size, "the data area lies in the file");
    uint64_t n_bytes = 0;
    unsigned sum = 0;
    for (const TensorInfo& info : header.tensors) {
      require(info.begin <= info.end && info.end <= size - header.data_offset,
              "data lie in the file");
      n_bytes += info.end - info.begin;
      const std::string_view content =
          bytes.substr(header.data_offset + info.begin, info.end - info.begin);
      for (const char c : content) sum += static_cast<uint8_t>(c);
      for (const int64_t n : info.shape) require(n >= 0, "sizes are not negative");
    }
    require(n_bytes == size - header.data_offset, "tensors tile the data area");
    volatile unsigned sink = sum;  // the bytes are read, so that a sanitizer sees it
    static_cast<void>(sink);
  });
}

void fuzz_manifest(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const auto files = manifest_from_json(
        parse_json(view(data, size), "manifest.json", FileRole::kCheckpoint), "manifest.json");
    for (const ManifestFile& file : files) {
      require(file.name.find('/') == std::string::npos && file.name != "..",
              "a manifest names files of its own folder");
      require(file.xxh3.size() == 32, "a checksum has 32 digits");
    }
    require(files.size() >= 4 && files.size() <= kCheckpointFiles.size(), "4 or 5 files");
  });
}

void fuzz_state(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const CheckpointState state = state_from_json(
        parse_json(view(data, size), "state.json", FileRole::kCheckpoint), "state.json");
    require(state.step >= 0 && state.windows_seen >= 0 && state.tokens_seen >= 0 &&
                state.step <= (int64_t{1} << 62),
            "counts are in range");
    const std::string text = dump_json(state_to_json(state));
    const CheckpointState again =
        state_from_json(parse_json(text, "again", FileRole::kCheckpoint), "again");
    require(dump_json(state_to_json(again)) == text, "a state survives to_json and back");
  });
}

void fuzz_text(const uint8_t* data, size_t size) {
  const std::string_view text = view(data, size);
  const auto byte_tokenizer = make_tokenizer("byte");
  const auto ids = byte_tokenizer->encode(text);
  require(byte_tokenizer->decode(std::span<const int32_t>(ids)) == text, "bytes come back");
  require(!find_invalid_utf8(escape_for_message(text, 200)), "an escaped text is valid UTF-8");
  require(escape_for_message(text, 200).find('\n') == std::string::npos, "and one line");
  const std::string json = dump_json(Json{{"text", std::string(text)}});
  expect_own_errors([&] {
    // JSON of any bytes is valid; of valid UTF-8 it gives the text back.
    const Json read = parse_json(json, "dump", FileRole::kData);
    require(find_invalid_utf8(text) || read["text"].get<std::string>() == text,
            "text survives JSON");
  });
  expect_own_errors([&] {
    const CharTokenizer tokenizer = CharTokenizer::from_text(text);
    const auto char_ids = tokenizer.encode(text);
    require(tokenizer.decode(std::span<const int32_t>(char_ids)) == text, "characters come back");
    require(!find_invalid_utf8(text), "only valid UTF-8 has characters");
  });
}

void fuzz_utf8_stream(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const std::string_view text = view(data + 1, size - 1);
  Utf8Stream whole;
  std::string at_once = whole.push(text);
  at_once += whole.finish();
  require(!find_invalid_utf8(at_once), "what comes out is valid UTF-8");
  require(find_invalid_utf8(text) || at_once == text, "valid text passes unchanged");

  Utf8Stream stream;
  std::string in_pieces;
  uint32_t random = data[0] + 1U;
  for (size_t i = 0; i < text.size();) {
    random = random * 1664525U + 1013904223U;
    const size_t n = std::min<size_t>((random >> 24) % 5, text.size() - i);
    const std::string piece = stream.push(text.substr(i, n));
    require(!find_invalid_utf8(piece), "every piece is valid UTF-8");
    in_pieces += piece;
    i += n;
  }
  in_pieces += stream.finish();
  require(in_pieces == at_once, "pieces give what the whole gives");
}

void fuzz_tensorboard(const uint8_t* data, size_t size) {
  std::vector<size_t> ends;
  const auto events = decode_tensorboard(view(data, size), &ends);
  require(events.size() == ends.size(), "each event has an end");
  for (size_t i = 0; i < ends.size(); ++i) {
    require(ends[i] <= size && (i == 0 || ends[i - 1] < ends[i]), "ends rise within the file");
  }
}

void fuzz_huggingface(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const Json json = parse_json(view(data, size), "config.json", FileRole::kCheckpoint);
    const ModelConfig model = read_huggingface_config(json, "config.json").model;
    require(model.n_head >= 1 && model.head_size() * model.n_head == model.n_embed,
            "heads share the width evenly");
    require(model.vocab_size >= 1 && model.context_length >= 1 && model.n_blocks >= 1,
            "sizes are positive");
    // What came in goes out, and comes in as the same model.
    const ExportPlan plan = plan_export(model, ExportFormat::kHuggingFace);
    const Json out(write_huggingface_config(plan, /*end_of_text=*/-1, "float32"));
    require(read_huggingface_config(out, "again").model == plan.model,
            "an exported config is read as the model it was made from");
  });
}

void fuzz_llmc(const uint8_t* data, size_t size) {
  // 1024 bytes of header before the first weight: most inputs are given the rest as zeros.
  std::vector<uint8_t> bytes(data, data + size);
  if (size < 1024) bytes.resize(1024);
  const auto file = std::as_bytes(std::span(bytes));
  expect_own_errors([&] {
    const LlmcModel model = read_llmc_model(file, "file");
    for (const LlmcTensor& tensor : model.tensors) {
      require(tensor.begin <= file.size() && tensor.bytes <= file.size() - tensor.begin,
              "tensors lie in the file");
    }
  });
}

void fuzz_meta_pkl(const uint8_t* data, size_t size) {
  expect_own_errors([&] {
    const CharTokenizer tokenizer = parse_nanogpt_meta(view(data, size), "meta.pkl");
    require(tokenizer.vocab_size() >= 1, "a vocabulary has an entry");
    const std::string last(tokenizer.token_bytes(tokenizer.vocab_size() - 1));
    require(tokenizer.encode(last) ==
                std::vector<int32_t>{static_cast<int32_t>(tokenizer.vocab_size() - 1)},
            "ids are those of the pickle");
  });
}

}  // namespace tril::fuzz
