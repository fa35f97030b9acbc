#include "tril/data/text_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "support/catch.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/bpe_trainer.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A folder for texts, and one that TRIL_CACHE points to.
class CacheTest {
 public:
  CacheTest() {
    if (const char* old = std::getenv("TRIL_CACHE")) old_ = old;
    setenv("TRIL_CACHE", (dir_ / "cache").c_str(), 1);
  }
  ~CacheTest() {
    if (old_) {
      setenv("TRIL_CACHE", old_->c_str(), 1);
    } else {
      unsetenv("TRIL_CACHE");
    }
  }
  CacheTest(const CacheTest&) = delete;
  CacheTest& operator=(const CacheTest&) = delete;

  fs::path text(const std::string& name, std::string_view content) const {
    return write_text(dir_ / name, content);
  }
  fs::path cache() const { return dir_ / "cache" / "text"; }
  /// The folder of the only entry.
  fs::path entry() const {
    std::vector<fs::path> entries = folders();
    REQUIRE(entries.size() == 1);
    return entries[0];
  }
  std::vector<fs::path> folders() const {
    std::vector<fs::path> found;
    for (const auto& item : fs::directory_iterator(cache())) {
      if (item.is_directory()) found.push_back(item.path());
    }
    return found;
  }

 private:
  TempDir dir_;
  std::optional<std::string> old_;
};

std::string decode(const TokenizedText& text) {
  std::string all = text.tokenizer->decode(all_ids(text.train));
  if (text.validation) all += text.tokenizer->decode(all_ids(*text.validation));
  return all;
}

}  // namespace

TEST_CASE("a text is tokenized once and then found", "[data]") {
  const CacheTest test;
  const TextSource source{.text = test.text("a.txt", "abcdefghij"), .validation_fraction = 0.2};
  const TokenizedText made = tokenize_cached(source, "char");
  CHECK(made.made_now);
  CHECK(made.train.size() == 8);
  REQUIRE(made.validation);
  CHECK(made.validation->size() == 2);
  CHECK(made.tokenizer->vocab_size() == 10);  // of the whole text, not of the training part
  CHECK(made.text_fingerprint == fingerprint("abcdefghij"));

  const TokenizedText found = tokenize_cached(source, "char");
  CHECK(!found.made_now);
  CHECK(decode(found) == "abcdefghij");
  CHECK(found.tokenizer->fingerprint() == made.tokenizer->fingerprint());
  CHECK(found.text_fingerprint == made.text_fingerprint);

  // The content counts, not the name.
  const TextSource copy{.text = test.text("b.txt", "abcdefghij"), .validation_fraction = 0.2};
  CHECK(!tokenize_cached(copy, "char").made_now);
  CHECK(test.folders().size() == 1);
}

TEST_CASE("whatever changes the tokens makes a new entry", "[data]") {
  const CacheTest test;
  const auto path = test.text("a.txt", "abcdefghij");
  const TextSource source{.text = path, .validation_fraction = 0.2};
  CHECK(tokenize_cached(source, "char").made_now);
  CHECK(tokenize_cached(source, "byte").made_now);
  CHECK(tokenize_cached({.text = path, .validation_fraction = 0.4}, "char").made_now);
  CHECK(tokenize_cached({.text = path}, "char").made_now);
  CHECK(tokenize_cached({.text = path, .validation_begin = 3}, "char").made_now);
  CHECK(tokenize_cached({.text = path, .validation_text = path}, "char").made_now);
  const auto time = fs::last_write_time(path);
  test.text("a.txt", "abcdefghik");  // same size and time
  fs::last_write_time(path, time);
  const TokenizedText changed = tokenize_cached(source, "char");
  CHECK(changed.made_now);
  CHECK(decode(changed) == "abcdefghik");
}

TEST_CASE("the split falls where the source says", "[data]") {
  const CacheTest test;
  const auto path = test.text("a.txt", "abc\u65e5efg");  // 9 bytes, the character at 3 to 5
  CHECK(tokenize_cached({.text = path, .validation_begin = 2}, "char").train.size() == 2);
  CHECK(tokenize_cached({.text = path, .validation_begin = 4}, "char").train.size() == 4);
  CHECK(tokenize_cached({.text = path, .validation_fraction = 0.5}, "char").train.size() == 4);
  CHECK(tokenize_cached({.text = path, .validation_begin = 9}, "char").validation->size() == 0);
  const TokenizedText whole = tokenize_cached({.text = path}, "char");
  CHECK(whole.train.size() == 7);
  CHECK(whole.train.header().text_bytes == 9);
  CHECK(!whole.validation);
  CHECK_THROWS_AS(tokenize_cached({.text = path, .validation_begin = 10}, "char"), DataError);
  CHECK_THROWS_AS(tokenize_cached({.text = path, .validation_begin = -1}, "char"), DataError);
  CHECK_THROWS_AS(tokenize_cached({.text = path, .validation_fraction = 1.0}, "char"), ConfigError);
  CHECK_THROWS_AS(tokenize_cached({.text = path, .validation_fraction = -0.1}, "char"),
                  ConfigError);
}

TEST_CASE("a validation file shares the vocabulary", "[data]") {
  const CacheTest test;
  const auto train = test.text("train.txt", "aabb");
  const auto validation = test.text("validation.txt", "abz");
  const TextSource source{.text = train, .validation_text = validation};
  const TokenizedText made = tokenize_cached(source, "char");
  CHECK(made.tokenizer->vocab_size() == 3);
  CHECK(made.train.size() == 4);
  CHECK(all_ids(*made.validation) == std::vector<int64_t>{0, 1, 2});
  CHECK(!tokenize_cached(source, "char").made_now);
  test.text("validation.txt", "aby");
  CHECK(tokenize_cached(source, "char").made_now);
}

TEST_CASE("a model's own tokenizer decides, and finds the entry made from the text", "[data]") {
  const CacheTest test;
  const auto path = test.text("a.txt", "abcabc");
  const auto same = std::make_shared<CharTokenizer>(CharTokenizer::from_text("cba"));
  const auto larger = std::make_shared<CharTokenizer>(CharTokenizer::from_text("_abc"));
  const auto smaller = std::make_shared<CharTokenizer>(CharTokenizer::from_text("ab"));
  CHECK(tokenize_cached({.text = path}, "char").made_now);
  CHECK(!tokenize_cached({.text = path}, same).made_now);
  const TokenizedText other = tokenize_cached({.text = path}, larger);
  CHECK(other.made_now);
  CHECK(all_ids(other.train) == std::vector<int64_t>{1, 2, 3, 1, 2, 3});
  CHECK(!tokenize_cached({.text = path}, larger).made_now);
  const size_t n_before = count_entries(test.cache());
  CHECK_THROWS_WITH(tokenize_cached({.text = path}, smaller),
                    ContainsSubstring("(U+0063) at offset 2 of '" + path.string() + "'"));
  CHECK(count_entries(test.cache()) == n_before + 1);  // only the lock file stays

  const auto file = test.text("tokenizer.json", dump_json(larger->to_json()));
  CHECK(!tokenize_cached({.text = path}, file.string()).made_now);
}

TEST_CASE("a BPE vocabulary is learned from the text, and found by name or by itself", "[data]") {
  const CacheTest test;
  const std::string content = repeat("the cat sat on the mat. ", 50);
  const auto path = test.text("a.txt", content);
  const TextSource source{.text = path, .validation_fraction = 0.1};
  const TokenizedText made = tokenize_cached(source, "bpe:280");
  CHECK(made.made_now);
  CHECK(decode(made) == content);

  BpeTrainer trainer({.vocab_size = 280, .special = {}});  // one running text
  trainer.add(content);
  const BpeTokenizer expected(trainer.train(), "the test's");
  CHECK(made.tokenizer->fingerprint() == expected.fingerprint());
  CHECK(made.tokenizer->token_bytes(made.tokenizer->start_token()) == "\n");

  CHECK_FALSE(tokenize_cached(source, "bpe:280").made_now);
  CHECK(tokenize_cached(source, "bpe:270").made_now);
  // A resumed run knows the tokenizer and what it was learned as.
  CHECK_FALSE(tokenize_cached(source, made.tokenizer, {}, "bpe:280").made_now);
  const TokenizedText smaller = tokenize_cached(source, "bpe:270");
  const TokenizedText other = tokenize_cached(source, smaller.tokenizer, {}, "bpe:280");
  CHECK(other.tokenizer->fingerprint() == smaller.tokenizer->fingerprint());
  CHECK(all_ids(other.train) == all_ids(smaller.train));

  // From a validation file too.
  const TextSource two{.text = path, .validation_text = test.text("v.txt", repeat("qx", 500))};
  const TokenizedText both = tokenize_cached(two, "bpe:280");
  CHECK(both.tokenizer->token_bytes(all_ids(*both.validation)[0]).size() > 1);
}

TEST_CASE("text that cannot be used leaves nothing in the cache", "[data]") {
  const CacheTest test;
  const auto empty = test.text("empty.txt", "");
  const auto good = test.text("good.txt", "abc");
  CHECK_THROWS_WITH(tokenize_cached({.text = empty}, "char"), ContainsSubstring("is empty"));
  CHECK_THROWS_WITH(tokenize_cached({.text = good.parent_path()}, "char"),
                    ContainsSubstring("is a folder"));
  CHECK_THROWS_WITH(tokenize_cached({.text = good, .validation_text = empty}, "char"),
                    ContainsSubstring(empty.string()));
  CHECK(!fs::exists(test.cache()));
  const auto bad = test.text("bad.txt", "ab\xff");
  CHECK_THROWS_WITH(tokenize_cached({.text = bad}, "char"),
                    ContainsSubstring("byte 0xFF at offset 2 of '" + bad.string() + "'"));
  CHECK(test.folders().empty());
  CHECK(decode(tokenize_cached({.text = bad}, "byte")) == "ab\xff");
}

TEST_CASE("a damaged or foreign entry is made anew", "[data]") {
  const CacheTest test;
  const TextSource source{.text = test.text("a.txt", "abcdefghij"), .validation_fraction = 0.2};
  const auto files = {"train.tokens", "validation.tokens", "tokenizer.json", "entry.json"};
  tokenize_cached(source, "char");
  const auto entry = test.entry();
  CHECK(count_entries(entry) == files.size());
  for (const char* name : files) {
    INFO(name);
    const std::string good = read_text(entry / name);
    std::string flipped = good;
    flipped[flipped.size() - 3] = static_cast<char>(flipped[flipped.size() - 3] ^ 1);
    for (const std::string& bad : {good.substr(0, good.size() - 1), std::string(), flipped}) {
      write_text(entry / name, bad);
      const TokenizedText text = tokenize_cached(source, "char");
      CHECK(decode(text) == "abcdefghij");
      // Cutting or flipping white space in entry.json does no harm; everything else must be seen.
      if (std::string(name) != "entry.json") CHECK(text.made_now);
      CHECK(!tokenize_cached(source, "char").made_now);
    }
    fs::remove(entry / name);
    CHECK(tokenize_cached(source, "char").made_now);
  }
  for (const char* foreign : {"[]", "{}", "{\"key\": 1, \"files\": []}", "not JSON"}) {
    write_text(entry / "entry.json", foreign);
    CHECK(tokenize_cached(source, "char").made_now);
  }
  // A sound entry of another text in this one's place.
  const TextSource other{.text = test.text("b.txt", "0123456789"), .validation_fraction = 0.2};
  tokenize_cached(other, "char");
  for (const fs::path& folder : test.folders()) {
    if (folder == entry) continue;
    fs::remove_all(entry);
    fs::copy(folder, entry);
  }
  CHECK(decode(tokenize_cached(source, "char")) == "abcdefghij");
}

TEST_CASE("two processes fill one cache entry, and one of them makes it", "[data]") {
  const CacheTest test;
  const std::string content = repeat("some text to share\n", 200000);  // 3.8 MB
  const TextSource source{.text = test.text("a.txt", content)};
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 2;
      try {
        const TokenizedText text = tokenize_cached(source, "char");
        if (decode(text) == content) code = text.made_now ? 1 : 0;
      } catch (...) {
      }
      _exit(code);
    }
    children.push_back(child);
  }
  int n_made = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) <= 1);
    n_made += WEXITSTATUS(status);
  }
  CHECK(n_made == 1);
  CHECK(!tokenize_cached(source, "char").made_now);
}

TEST_CASE("a process killed at any piece leaves a cache that works", "[data]") {
  const CacheTest test;
  const std::string content = repeat("text\n", 500000);  // 2.5 MB: three pieces, two passes
  const TextSource source{.text = test.text("a.txt", content)};
  for (int n_pieces = 1; n_pieces <= 6; ++n_pieces) {
    const pid_t child = fork();
    if (child == 0) {
      int pieces = 0;
      const auto die = [&](int64_t, int64_t) {
        if (++pieces == n_pieces) raise(SIGKILL);
      };
      try {
        tokenize_cached(source, "char", {.progress = die});
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
  }
  CHECK(test.folders().size() == 1);  // the last one's left-over; each removed the one before
  const TokenizedText text = tokenize_cached(source, "char");
  CHECK(text.made_now);
  CHECK(first_difference(decode(text), content) == -1);
  CHECK(test.folders().size() == 1);
  CHECK(!is_temporary_name(test.entry()));
}

TEST_CASE("left-overs of other entries stay, and do not disturb", "[data]") {
  const CacheTest test;
  const TextSource source{.text = test.text("a.txt", "abc")};
  const auto foreign = test.cache() / ".0123.tmp-1-2";
  fs::create_directories(foreign);
  CHECK(tokenize_cached(source, "char").made_now);
  CHECK(!tokenize_cached(source, "char").made_now);
  CHECK(fs::exists(foreign));  // another process may be writing it
}

TEST_CASE("who must wait for another process says so, and can be stopped", "[data]") {
  const CacheTest test;
  const TextSource source{.text = test.text("a.txt", "abc")};
  tokenize_cached(source, "char");
  const auto entry = test.entry();
  const auto lock_path = test.cache() / (entry.filename().string() + ".lock");
  fs::remove_all(entry);

  std::vector<std::string> notices;
  int n_stops = 0;
  std::optional<FileLock> lock = FileLock::try_acquire(lock_path);
  REQUIRE(lock);
  TextHooks hooks{// Asked once while the text is hashed, then at each look at the lock.
                  .stop = [&] { return ++n_stops >= 4; },
                  .notice = [&](const std::string& text) { notices.push_back(text); }};
  CHECK_THROWS_AS(tokenize_cached(source, "char", hooks), Interrupted);
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], ContainsSubstring(std::to_string(getpid())));

  hooks.stop = [&] {
    if (++n_stops == 7) lock.reset();
    return false;
  };
  CHECK(tokenize_cached(source, "char", hooks).made_now);
}

TEST_CASE("a cached text notes CR line ends once, when it is made", "[data]") {
  const CacheTest test;
  int n_notices = 0;
  const TextHooks hooks{.notice = [&](const std::string&) { ++n_notices; }};
  const TextSource source{.text = test.text("a.txt", "a\r\nb\r\n")};
  CHECK(decode(tokenize_cached(source, "char", hooks)) == "a\r\nb\r\n");
  tokenize_cached(source, "char", hooks);
  CHECK(n_notices == 1);
}

TEST_CASE("the known small corpus opens from the cache at once", "[data]") {
  const auto path = shared_data("tinyshakespeare.txt");
  if (!path) TRIL_SKIP("tinyshakespeare.txt is not here");
  const CacheTest test;
  const TextSource source{.text = *path, .validation_fraction = 0.1};
  tokenize_cached(source, "char");
  const auto begin = std::chrono::steady_clock::now();
  const TokenizedText text = tokenize_cached(source, "char");
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  CHECK(!text.made_now);
  CHECK(text.train.size() == 1003854);
  CHECK(text.validation->size() == 111540);
  INFO(taken.count() << " ms");
  CHECK(taken.count() < 500);  // about 3 ms; the limit leaves room for sanitizers and busy machines
}

TEST_CASE("a full cache drops what was used longest ago", "[data]") {
  const CacheTest test;
  // Three texts of 40 kB of ids each; room for two.
  setenv("TRIL_CACHE_GB", "0.0001", 1);
  const auto source_of = [&](const std::string& name) {
    return TextSource{.text =
                          test.text(name, repeat(name, 20'000 / static_cast<int>(name.size())))};
  };
  const TextSource a = source_of("a.txt");
  const TextSource b = source_of("bb.txt");
  const TextSource c = source_of("ccc.txt");
  tokenize_cached(a, "byte");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  tokenize_cached(b, "byte");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const TokenizedText used_again = tokenize_cached(a, "byte");
  CHECK_FALSE(used_again.made_now);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const TokenizedText third = tokenize_cached(c, "byte");
  CHECK(third.made_now);
  CHECK(test.folders().size() == 2);
  CHECK_FALSE(tokenize_cached(a, "byte").made_now);  // used after b
  CHECK(tokenize_cached(b, "byte").made_now);        // gone, and made anew
  // What is open stays readable when its entry is dropped.
  CHECK(decode(third) == repeat("ccc.txt", 20'000 / 7));
  // An entry larger than the limit stays while it is the newest.
  setenv("TRIL_CACHE_GB", "0.00000001", 1);
  CHECK(tokenize_cached(source_of("dddd.txt"), "byte").made_now);
  CHECK_FALSE(tokenize_cached(source_of("dddd.txt"), "byte").made_now);
  CHECK(test.folders().size() == 1);
  unsetenv("TRIL_CACHE_GB");
}

TEST_CASE("the limit of the cache is a number of gigabytes", "[data]") {
  const auto limit_of = [](const char* value) {
    setenv("TRIL_CACHE_GB", value, 1);
    std::optional<uint64_t> limit;
    try {
      limit = text_cache_limit_bytes();
    } catch (...) {
      unsetenv("TRIL_CACHE_GB");
      throw;
    }
    unsetenv("TRIL_CACHE_GB");
    return limit;
  };
  CHECK(text_cache_limit_bytes() == uint64_t{20'000'000'000});
  CHECK(limit_of("") == uint64_t{20'000'000'000});
  CHECK(limit_of("1.5") == uint64_t{1'500'000'000});
  CHECK_FALSE(limit_of("0"));
  for (const char* bad : {"-1", "x", "3GB", "nan", "inf"}) {
    CHECK_THROWS_AS(limit_of(bad), ConfigError);
  }
}
