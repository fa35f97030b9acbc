// What may be used by several threads at once. The thread sanitizer (preset tsan-base) watches.

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/append_file.h"
#include "tril/base/file.h"
#include "tril/base/log.h"
#include "tril/base/token_file.h"
#include "tril/data/window_sampler.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// Runs `work(number)` in four threads that begin together.
template <class Work>
void in_four_threads(const Work& work) {
  std::atomic<int> n_ready{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      ++n_ready;
      while (n_ready < 4) std::this_thread::yield();
      work(number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("log lines of several threads stay whole", "[base][threads]") {
  const TempDir dir;
  const auto level = spdlog::get_level();
  init_logging("off");
  add_log_file(dir / "train.log");
  in_four_threads([](int number) {
    for (int i = 0; i < 200; ++i) spdlog::info("thread {} line {} end", number, i);
  });
  remove_log_file();
  init_logging("info");
  spdlog::set_level(level);
  const std::string text = read_text(dir / "train.log");
  CHECK(std::count(text.begin(), text.end(), '\n') == 800);
  size_t n_whole = 0;
  for (size_t at = 0; (at = text.find(" end\n", at)) != std::string::npos; ++at) ++n_whole;
  CHECK(n_whole == 800);
}

TEST_CASE("temporary names of several threads differ", "[base][threads]") {
  std::vector<std::vector<std::string>> names(4);
  in_four_threads([&](int number) {
    for (int i = 0; i < 500; ++i) {
      names[static_cast<size_t>(number)].push_back(temporary_sibling("folder/file").string());
    }
  });
  std::set<std::string> all;
  for (const auto& some : names) all.insert(some.begin(), some.end());
  CHECK(all.size() == 2000);
}

TEST_CASE("several threads replace one file, and a reader always finds a whole one",
          "[base][threads]") {
  const TempDir dir;
  const auto path = dir / "file";
  write_file_atomically(path, std::string(5000, 'a'));
  std::atomic<int> n_torn{0};
  in_four_threads([&](int number) {
    for (int i = 0; i < 30; ++i) {
      if (number == 0) {
        const std::string text = read_file(path, FileRole::kData);
        if (text != std::string(5000, text[0])) ++n_torn;
      } else {
        write_file_atomically(path, std::string(5000, static_cast<char>('a' + number)));
      }
    }
  });
  CHECK(n_torn == 0);
  CHECK(count_entries(dir.path()) == 1);
}

TEST_CASE("a lock is held by one of several threads at a time", "[base][threads]") {
  const TempDir dir;
  int inside = 0;  // no atomic: the lock alone keeps the threads apart
  int n_entered = 0;
  bool alone = true;
  in_four_threads([&](int) {
    for (int i = 0; i < 25; ++i) {
      const FileLock lock = FileLock::acquire(dir / "lock");
      // The kernel orders the threads; the sanitizer cannot see that, so tell it by a fence of
      // ours.
      static std::atomic<int> order{0};
      order.fetch_add(1, std::memory_order_acq_rel);
      alone = alone && ++inside == 1;
      ++n_entered;
      --inside;
      order.fetch_add(1, std::memory_order_acq_rel);
    }
  });
  CHECK(alone);
  CHECK(n_entered == 100);
}

TEST_CASE("tokenizers, token files and samplers may be read by several threads",
          "[base][threads]") {
  const TempDir dir;
  const std::string text = repeat("the cat sat on the mat. ", 50);
  const CharTokenizer tokenizer = CharTokenizer::from_text(text);
  const auto ids = tokenizer.encode(text);
  TokenFileWriter writer(dir / "t.tokens", tokenizer.vocab_size(), tokenizer.fingerprint());
  writer.append(ids);
  writer.finish();
  const TokenFile file = TokenFile::open(dir / "t.tokens");
  const WindowSampler sampler(Sampling::kShuffle, file.size(), 16, /*seed=*/3);
  std::atomic<int> n_wrong{0};
  in_four_threads([&](int) {
    for (int64_t g = 0; g < 200; ++g) {
      if (tokenizer.encode(text) != ids) ++n_wrong;
      std::vector<int64_t> window(17);
      const int64_t start = sampler.start(g);
      file.read(start, window);
      if (window[0] != ids[static_cast<size_t>(start)]) ++n_wrong;
    }
  });
  CHECK(n_wrong == 0);
}
