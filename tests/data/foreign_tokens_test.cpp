// Token files that other programs made (scripts/make_foreign_tokens.py), through the config.

#include <string>

#include "support/catch.h"
#include "support/data_test.h"
#include "tril/base/fingerprint.h"
#include "tril/data/hdf5_tokens.h"
#include "tril/data/nanogpt_meta.h"
#include "tril/data/prepare.h"
#include "tril/data/training_data.h"
#include "tril/tokenizer/byte_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kForeign = fs::path(TRIL_SOURCE_DIR) / "tests" / "golden" / "foreign";

DataConfig of_file(const fs::path& file, DataFormat format = DataFormat::kAuto) {
  DataConfig config;
  config.train = file.string();
  config.format = format;
  config.tokenizer = "byte";
  config.validation_fraction = 0;
  return config;
}

std::string text_of(const DataConfig& config) {
  const TrainingData data = open_data(config, 16);
  return data.tokenizer->decode(all_ids(data.train));
}

}  // namespace

TEST_CASE("token files of other programs give the text they were made from", "[data][golden]") {
  const DataTest test;
  const std::string text = read_text(kForeign / "text.txt");
  CHECK(text_of(of_file(kForeign / "llmc_gpt2.bin")) == text);
  CHECK(text_of(of_file(kForeign / "llmc_llama3.bin", DataFormat::kLlmc)) == text);
  CHECK(text_of(of_file(kForeign / "nanogpt.bin", DataFormat::kUint16)) == text);
  if (!has_hdf5()) TRIL_SKIP("libhdf5 is not on this machine");
  CHECK(text_of(of_file(kForeign / "growing.h5")) == text);
  CHECK(text_of(of_file(kForeign / "growing.h5", DataFormat::kHdf5)) == text);  // from the cache
}

TEST_CASE("nanoGPT's meta.pkl gives the characters of its ids", "[data][golden]") {
  const DataTest test;
  for (const char* meta : {"meta_protocol2.pkl", "meta_protocol4.pkl"}) {
    DataConfig config = of_file(kForeign / "nanogpt_char.bin", DataFormat::kUint16);
    config.tokenizer = (kForeign / meta).string();
    CHECK(text_of(config) == read_text(kForeign / "text.txt"));
    CHECK(read_nanogpt_meta(kForeign / meta).encode("\u65e5").size() == 1);
  }
}

TEST_CASE("a pickle is never run, and a broken one never crashes", "[data]") {
  const DataTest test;
  const std::string good = read_text(kForeign / "meta_protocol4.pkl");
  const auto refusal = [&](const std::string& bytes) {
    write_text(test / "meta.pkl", bytes);
    try {
      read_nanogpt_meta(test / "meta.pkl");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  // cos\nsystem\n(S'...'\ntR. is the pickle of os.system('...').
  CHECK_THAT(refusal("\x80\x02"
                     "cos\nsystem\n(S'true'\ntR."),
             ContainsSubstring("instruction 0x63") && ContainsSubstring("runs no pickles"));
  CHECK_THAT(refusal(""), ContainsSubstring("cut short"));
  CHECK_THAT(refusal("."), ContainsSubstring("no dictionary"));
  CHECK_THAT(refusal("}."), ContainsSubstring("no \"itos\""));
  CHECK_THAT(refusal("}(X\x04\x00\x00\x00itosK\x05u."),
             ContainsSubstring("cut short") || ContainsSubstring("no \"itos\""));
  CHECK_THAT(refusal(std::string(1000, '}') + "."), ContainsSubstring("too many dictionaries"));
  for (size_t n = 0; n < good.size(); ++n) CHECK(refusal(good.substr(0, n)) != "(accepted)");
  for (size_t i = 0; i < good.size(); ++i) {  // any one byte wrong: refused, or read as something
    for (const char byte : {'\0', '(', 'u', 's', 'h', 'j', '.', '}', '\x94', '\xff'}) {
      std::string bad = good;
      bad[i] = byte;
      refusal(bad);
    }
  }
}

TEST_CASE("the end of foreign token files is for validation", "[data]") {
  const DataTest test;
  const std::string text = read_text(kForeign / "text.txt");
  DataConfig config = of_file(kForeign / "nanogpt.bin", DataFormat::kUint16);
  config.validation_fraction = 0.25;
  const TrainingData data = open_data(config, 16);
  const auto cut = static_cast<size_t>(validation_begin(static_cast<int64_t>(text.size()), 0.25));
  CHECK(data.tokenizer->decode(all_ids(data.train)) == text.substr(0, cut));
  CHECK(data.tokenizer->decode(all_ids(data.validation.value())) == text.substr(cut));
  // A file of its own leaves all of the other; it may be of another kind.
  config.validation = (kForeign / "llmc_gpt2.bin").string();
  const TrainingData own = open_data(config, 16);
  CHECK(own.train.size() == static_cast<int64_t>(text.size()));
  CHECK(own.validation.value().size() == static_cast<int64_t>(text.size()));
  // One without a header is of the kind of the training file; a text is tokenised.
  config.validation = (kForeign / "nanogpt.bin").string();
  CHECK(open_data(config, 16).validation.value().size() == static_cast<int64_t>(text.size()));
}

TEST_CASE("foreign ids need a tokenizer: named, or beside them", "[data]") {
  const DataTest test;
  fs::copy_file(kForeign / "nanogpt.bin", test / "ids.bin");
  DataConfig config = of_file(test / "ids.bin", DataFormat::kUint16);
  config.tokenizer = "char";  // the default
  CHECK_THAT(data_error_of(config, 16),
             ContainsSubstring("ids.bin") && ContainsSubstring("--set data.tokenizer=gpt2"));
  write_text(test / "tokenizer.json", dump_json(make_byte_tokenizer()->to_json()));
  CHECK(text_of(config) == read_text(kForeign / "text.txt"));
}

TEST_CASE("foreign ids outside the tokenizer are refused before training", "[data]") {
  const DataTest test;
  std::string ids = read_text(kForeign / "nanogpt.bin");
  ids[1001] = 1;  // token 500 becomes 256 or more
  write_text(test / "ids.bin", ids);
  CHECK_THAT(data_error_of(of_file(test / "ids.bin", DataFormat::kUint16), 16),
             ContainsSubstring("token 500 of") && ContainsSubstring("its tokenizer has 256 ids"));
}

TEST_CASE("the kind of a file is taken by its content, and a wrong one refused", "[data]") {
  const DataTest test;
  CHECK_THAT(data_error_of(of_file(kForeign / "llmc_gpt2.bin", DataFormat::kUint16), 16),
             ContainsSubstring("shard of llm.c"));
  CHECK_THAT(data_error_of(of_file(kForeign / "nanogpt.bin", DataFormat::kLlmc), 16),
             ContainsSubstring("data.format uint16"));
  CHECK_THAT(data_error_of(of_file(kForeign / "nanogpt.bin", DataFormat::kTril), 16),
             ContainsSubstring("not a usable token file"));
  // Without a header nothing is guessed: it is text, and a notice says what it may be.
  std::string notice;
  DataConfig config = of_file(kForeign / "nanogpt.bin");
  open_training_data(
      config, 16, nullptr, {.notice = [&](const std::string& text) { notice += text; }});
  CHECK_THAT(notice, ContainsSubstring("data.format=uint16"));
}

TEST_CASE("an HDF5 file that is no stream of ids is refused with the reason", "[data]") {
  const DataTest test;
  write_text(test / "no.h5", "\x89HDF\r\n\x1a\n and then nothing");
  if (!has_hdf5()) {
    CHECK_THAT(data_error_of(of_file(kForeign / "growing.h5"), 16),
               ContainsSubstring("needs libhdf5"));
    TRIL_SKIP("libhdf5 is not on this machine");
  }
  CHECK_THAT(data_error_of(of_file(test / "no.h5"), 16),
             ContainsSubstring("not a readable HDF5 file"));
  CHECK_THAT(data_error_of(of_file(kForeign / "packed.h5"), 16), ContainsSubstring("2 dimensions"));
  CHECK_THAT(data_error_of(of_file(kForeign / "floats.h5"), 16),
             ContainsSubstring("does not hold integers"));
  CHECK_THAT(data_error_of(of_file(kForeign / "other.h5"), 16),
             ContainsSubstring("no dataset `tokens`"));
  std::string cut = read_text(kForeign / "growing.h5");
  write_text(test / "cut.h5", cut.substr(0, cut.size() / 2));
  CHECK_THAT(data_error_of(of_file(test / "cut.h5"), 16), ContainsSubstring("cut.h5"));
}

TEST_CASE("a changed HDF5 file is read anew", "[data]") {
  const DataTest test;
  if (!has_hdf5()) TRIL_SKIP("libhdf5 is not on this machine");
  fs::copy_file(kForeign / "growing.h5", test / "a.h5");
  const TrainingData before = open_data(of_file(test / "a.h5"), 16);
  std::string bytes = read_text(test / "a.h5");
  fs::remove(test / "a.h5");
  write_text(test / "a.h5", bytes.substr(0, 100));
  CHECK_THAT(data_error_of(of_file(test / "a.h5"), 16), ContainsSubstring("a.h5"));
}
