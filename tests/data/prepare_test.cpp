#include "tril/data/prepare.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "support/catch.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

/// The text that a prepared folder stands for.
std::string decode_folder(const fs::path& folder) {
  const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
  std::string text;
  for (const char* name : {"train.tokens", "validation.tokens"}) {
    if (!fs::exists(folder / name)) continue;
    text += tokenizer->decode(all_ids(open_token_file_checked(folder / name, *tokenizer)));
  }
  return text;
}

std::string random_bytes(size_t n_bytes) {
  std::mt19937 random(7);
  std::string bytes(n_bytes, '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 0xFF);
  return bytes;
}

/// The message and exit code of a call that must fail.
template <typename Call>
std::pair<std::string, int> failure_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  }
  return {"no error", 0};
}

/// Runs `call` in a process of its own; its wait status.
template <typename Call>
int run_in_child(const Call& call) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      call();
    } catch (...) {
      _exit(99);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("prepare writes two token files and the tokenizer", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abcdefghi\n", 10));
  const PrepareResult result = prepare({.inputs = {input}, .out = dir / "out"});
  CHECK(result.train.tokens == 90);
  CHECK(result.train.text_bytes == 90);
  REQUIRE(result.validation);
  CHECK(result.validation->tokens == 10);
  CHECK(result.tokenizer->vocab_size() == 10);

  const auto train = TokenFile::open(dir / "out" / "train.tokens");
  CHECK(train.size() == 90);
  CHECK(train.header().text_bytes == 90);
  CHECK(train.header().vocab_size == 10);
  CHECK(train.header().tokenizer_fingerprint == result.tokenizer->fingerprint());
  CHECK(first_difference(decode_folder(dir / "out"), read_text(input)) == -1);
  CHECK(count_entries(dir / "out") == 3);
}

TEST_CASE("without a validation fraction there is no validation file", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "abcabc");
  const PrepareResult result =
      prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "a" / "b"});
  CHECK(result.train.tokens == 6);
  CHECK(!result.validation);
  CHECK(count_entries(dir / "a" / "b") == 2);
  CHECK(decode_folder(dir / "a" / "b") == "abcabc");
}

TEST_CASE("the validation share is the end of the text, cut between characters", "[data]") {
  CHECK(validation_begin(1115394, 0.1) == 1003854);
  CHECK(validation_begin(10, 0.0) == 10);
  CHECK(validation_begin(100, 0.05) == 95);
  const TempDir dir;
  // 20 bytes; byte 10 lies inside the character that begins at byte 9.
  const auto input = write_text(dir / "in.txt", "012345678\u65e5abcdefgh");
  const PrepareResult result =
      prepare({.inputs = {input}, .validation_fraction = 0.5, .out = dir / "out"});
  CHECK(result.train.text_bytes == 12);
  CHECK(result.train.tokens == 10);
  CHECK(result.validation->text_bytes == 8);
  CHECK(first_difference(decode_folder(dir / "out"), read_text(input)) == -1);
}

TEST_CASE("an impossible validation fraction is refused before anything is read", "[data]") {
  const TempDir dir;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {1.0, -0.1, 1.5, nan}) {
    const auto [message, code] = failure_of([&] {
      prepare({.inputs = {dir / "absent"}, .validation_fraction = bad, .out = dir / "out"});
    });
    CHECK(code == 2);
    CHECK_THAT(message, ContainsSubstring("validation fraction"));
  }
  CHECK(count_entries(dir.path()) == 0);
}

TEST_CASE("input that cannot be used is refused by path and reason", "[data]") {
  const TempDir dir;
  const auto good = write_text(dir / "good.txt", "abc");
  const auto empty = write_text(dir / "empty.txt", "");
  const auto locked = write_text(dir / "locked.txt", "abc");
  fs::permissions(locked, fs::perms::none);
  const auto pipe = dir / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_directory(dir / "bare");
  struct Case {
    fs::path path;
    std::string reason;
  };
  std::vector<Case> cases{{empty, "is empty"},
                          {dir / "absent.txt", "no text file"},
                          {good / "below", "no text file"},
                          {dir / "bare", "holds no text"},
                          {pipe, "not a regular file"}};
  if (geteuid() != 0) cases.push_back({locked, "Permission denied"});  // root reads everything
  for (const Case& bad : cases) {
    const auto [message, code] = failure_of([&] {
      prepare({.inputs = {good, bad.path}, .out = dir / "new" / "out"});
    });
    CHECK(code == 3);
    CHECK_THAT(message, ContainsSubstring(bad.path.string()) && ContainsSubstring(bad.reason));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(!fs::exists(dir / "new"));
  }
  const auto [message, code] = failure_of([&] { prepare({.inputs = {}, .out = dir / "out"}); });
  CHECK(code == 2);
}

TEST_CASE("a text of one newline has a vocabulary of one", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "\n");
  const PrepareResult result =
      prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "out"});
  CHECK(result.tokenizer->vocab_size() == 1);
  CHECK(result.train.tokens == 1);
}

TEST_CASE("line ends come back byte for byte, with one notice about CR", "[data]") {
  const TempDir dir;
  struct Case {
    std::string text;
    int64_t crlf;
    int64_t lone;
  };
  const std::vector<Case> cases{{repeat("a\rb\r", 500), 0, 1000},
                                {repeat("a\r\nb\r\n", 500), 1000, 0},
                                {repeat("a\nb\n", 500), 0, 0}};
  int number = 0;
  for (const Case& line_ends : cases) {
    const auto input = write_text(dir / "in.txt", line_ends.text);
    for (const Newlines newlines : {Newlines::kKeep, Newlines::kNormalize}) {
      std::vector<std::string> notices;
      const auto out = dir / std::to_string(number++);
      const PrepareResult result =
          prepare({.inputs = {input}, .out = out, .newlines = newlines},
                  {.notice = [&](const std::string& text) { notices.push_back(text); }});
      CHECK(result.carriage_returns.crlf == line_ends.crlf);
      CHECK(result.carriage_returns.lone == line_ends.lone);
      CHECK(notices.size() == (line_ends.crlf + line_ends.lone > 0 ? 1 : 0));
      const bool keep = newlines == Newlines::kKeep;
      CHECK(first_difference(decode_folder(out), keep ? line_ends.text : repeat("a\nb\n", 500)) ==
            -1);
    }
  }
}

TEST_CASE("CR LF that is cut by a piece or a file is still one line end", "[data]") {
  const TempDir dir;
  const std::string filler(static_cast<size_t>(TextReader::kPieceBytes) - 1, 'x');
  const auto first = write_text(dir / "a.txt", filler + "\r\nyy\r");
  const auto second = write_text(dir / "b.txt", "\nz\r");
  const PrepareResult kept =
      prepare({.inputs = {first, second}, .tokenizer = "byte", .out = dir / "kept"});
  CHECK(kept.carriage_returns.crlf == 2);
  CHECK(kept.carriage_returns.lone == 1);
  CHECK(first_difference(decode_folder(dir / "kept"), filler + "\r\nyy\r\nz\r") == -1);
  prepare({.inputs = {first, second},
           .tokenizer = "byte",
           .out = dir / "made",
           .newlines = Newlines::kNormalize});
  CHECK(first_difference(decode_folder(dir / "made"), filler + "\nyy\nz\n") == -1);
}

TEST_CASE("any bytes survive the byte tokenizer, over many pieces", "[data]") {
  const TempDir dir;
  const std::string bytes = random_bytes(static_cast<size_t>(TextReader::kPieceBytes) * 2 + 12345);
  const auto input = write_text(dir / "in.bin", bytes);
  const PrepareResult result =
      prepare({.inputs = {input}, .tokenizer = "byte", .out = dir / "out"});
  CHECK(result.train.text_bytes + result.validation->text_bytes ==
        static_cast<int64_t>(bytes.size()));
  CHECK(first_difference(decode_folder(dir / "out"), bytes) == -1);
}

TEST_CASE("characters that lie across pieces and files stay whole", "[data]") {
  const TempDir dir;
  const std::string text = "x" + repeat("\u65e5\U0001F600", 400000);  // 2.8 MB, odd alignment
  const auto first = write_text(dir / "a.txt", text.substr(0, 1500000));
  const auto second = write_text(dir / "b.txt", text.substr(1500000));
  const PrepareResult result = prepare({.inputs = {first, second}, .out = dir / "out"});
  CHECK(result.tokenizer->vocab_size() == 3);
  CHECK(result.train.tokens + result.validation->tokens == 800001);
  CHECK(first_difference(decode_folder(dir / "out"), text) == -1);
}

TEST_CASE("prepare learns a BPE vocabulary from all its files", "[data]") {
  const TempDir dir;
  write_text(dir / "a.txt", repeat("the cat sat. ", 60));
  write_text(dir / "b.txt", repeat("quick foxes<|endoftext|> ", 60));
  PrepareOptions options{.inputs = {dir / "a.txt", dir / "b.txt"}, .out = dir / "out"};
  options.tokenizer = "bpe:290";
  options.validation_fraction = 0;
  const PrepareResult result = prepare(options);
  const auto learns = [](const PrepareResult& prepared, std::string_view token) {
    for (int64_t id = 256; id < prepared.tokenizer->vocab_size(); ++id) {
      if (prepared.tokenizer->token_bytes(id) == token) return true;
    }
    return false;
  };
  CHECK(learns(result, " cat"));
  CHECK(learns(result, " foxes"));
  CHECK(learns(result, "endoftext"));
  // Two files are two documents, and a marker in the text is text.
  CHECK(result.train.documents == 2);
  const auto ids = all_ids(TokenFile::open(dir / "out" / "train.tokens"));
  CHECK(std::count(ids.begin(), ids.end(), result.tokenizer->end_of_text()) == 2);

  options.out = dir / "special";
  options.special = SpecialText::kBecomesId;
  const PrepareResult special = prepare(options);
  const auto marked = all_ids(TokenFile::open(dir / "special" / "train.tokens"));
  CHECK(std::count(marked.begin(), marked.end(), special.tokenizer->end_of_text()) == 62);
  CHECK(learns(special, " foxes"));
  CHECK_FALSE(learns(special, "endoftext"));

  options.tokenizer = "bpe:256";
  CHECK_THROWS_WITH(prepare(options), ContainsSubstring("bpe:256") && ContainsSubstring("257"));

  // One file is one running text: no document ends in it, so nothing would follow an end-of-text.
  std::vector<std::string> notices;
  const PrepareResult running =
      prepare({.inputs = {dir / "a.txt"}, .tokenizer = "bpe:700", .out = dir / "running"},
              {.notice = [&](const std::string& text) { notices.push_back(text); }});
  CHECK(running.tokenizer->token_bytes(running.tokenizer->start_token()) == "\n");
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], ContainsSubstring("ids, not 700"));
}

TEST_CASE("the result does not depend on the locale", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "na\u00efve \u2014 \u65e5\u672c\u8a9e\n");
  std::vector<std::string> trains;
  for (const char* locale : {"C", "C.UTF-8", ""}) {
    std::setlocale(LC_ALL, locale);
    const auto out = dir / ("out" + std::to_string(trains.size()));
    CHECK(prepare({.inputs = {input}, .out = out}).tokenizer->vocab_size() == 11);
    trains.push_back(read_text(out / "train.tokens") + read_text(out / "tokenizer.json"));
  }
  std::setlocale(LC_ALL, "C");
  CHECK(trains[0] == trains[1]);
  CHECK(trains[0] == trains[2]);
}

TEST_CASE("the highest id survives at the border of two and four bytes", "[data]") {
  const TempDir dir;
  for (const int64_t vocab_size : {65535, 65536, 65537}) {
    std::vector<char32_t> vocabulary;
    for (char32_t c = 1; static_cast<int64_t>(vocabulary.size()) < vocab_size; ++c) {
      if (c < 0xD800 || c > 0xDFFF) vocabulary.push_back(c);
    }
    const CharTokenizer tokenizer(vocabulary);
    const std::string highest(tokenizer.token_bytes(vocab_size - 1));
    const auto name = std::to_string(vocab_size);
    const auto file = write_text(dir / (name + ".json"), dump_json(tokenizer.to_json()));
    const auto input = write_text(dir / (name + ".txt"), "a" + highest + "b");
    prepare({.inputs = {input},
             .tokenizer = file.string(),
             .validation_fraction = 0,
             .out = dir / name});
    const auto train = TokenFile::open(dir / name / "train.tokens");
    CHECK(train.header().id_bytes == (vocab_size == 65537 ? 4 : 2));
    CHECK(all_ids(train) == std::vector<int64_t>{'a' - 1, vocab_size - 1, 'b' - 1});
    CHECK(describe_token_file(dir / name / "train.tokens").highest_id == vocab_size - 1);
  }
}

TEST_CASE("a fault in the text is named by file and offset there", "[data]") {
  const TempDir dir;
  const auto first = write_text(dir / "first.txt", std::string(1500000, 'a'));
  const auto second = write_text(dir / "second.txt", std::string(1200000, 'a') + "b\xff");
  const auto bad_utf8 = failure_of([&] {
    prepare({.inputs = {first, second}, .out = dir / "new"});
  });
  CHECK(bad_utf8.second == 3);
  CHECK_THAT(bad_utf8.first,
             ContainsSubstring("byte 0xFF at offset 1200001 of '" + second.string() + "'"));

  const auto file = write_text(dir / "a.json", dump_json(CharTokenizer::from_text("a").to_json()));
  const auto unknown = failure_of([&] {
    prepare({.inputs = {first, second}, .tokenizer = file.string(), .out = dir / "new"});
  });
  CHECK_THAT(unknown.first,
             ContainsSubstring("(U+0062) at offset 1200000 of '" + second.string() + "'"));
  CHECK(!fs::exists(dir / "new"));
}

TEST_CASE("a folder in use is refused, or its files are replaced on demand", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 100));
  const auto out = dir / "out";
  fs::create_directory(out);
  prepare({.inputs = {input}, .out = out});  // an empty folder is fine
  write_text(out / "notes.txt", "mine");

  const auto [message, code] = failure_of([&] { prepare({.inputs = {input}, .out = out}); });
  CHECK(code == 2);
  CHECK_THAT(message, ContainsSubstring("is not empty") && ContainsSubstring("--overwrite"));

  prepare({.inputs = {input}, .validation_fraction = 0, .out = out, .overwrite = true});
  CHECK(!fs::exists(out / "validation.tokens"));  // the old one would leak training text
  CHECK(first_difference(decode_folder(out), read_text(input)) == -1);
  CHECK(read_text(out / "notes.txt") == "mine");

  CHECK(failure_of([&] { prepare({.inputs = {input}, .out = input}); }).second == 2);
}

TEST_CASE("a failed overwrite leaves the old files", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 100));
  prepare({.inputs = {input}, .out = dir / "out"});
  const auto bad = write_text(dir / "bad.txt", "abc\xff");
  CHECK(failure_of([&] {
          prepare({.inputs = {bad}, .out = dir / "out", .overwrite = true});
        }).second == 3);
  CHECK(first_difference(decode_folder(dir / "out"), read_text(input)) == -1);
  CHECK(count_entries(dir / "out") == 3);
}

TEST_CASE("an interrupted prepare leaves nothing", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 1000000));  // four pieces
  for (const int n_polls : {1, 4, 6, 8}) {  // in the first pass and in the second
    int polls = 0;
    const TextHooks hooks{.stop = [&] { return ++polls >= n_polls; }};
    CHECK_THROWS_AS(prepare({.inputs = {input}, .out = dir / "a" / "out"}, hooks), Interrupted);
    CHECK(!fs::exists(dir / "a"));
  }
}

TEST_CASE("progress counts up to the whole", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 600000));
  int64_t last = 0;
  int64_t whole = 0;
  prepare({.inputs = {input}, .out = dir / "out"}, {.progress = [&](int64_t done, int64_t total) {
            CHECK(done > last);
            last = done;
            whole = total;
          }});
  CHECK(whole == 2 * 2400000);
  CHECK(last == whole);
}

TEST_CASE("a killed prepare is forgotten by the next one", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 1000000));
  const auto out = dir / "out";
  const int status = run_in_child([&] {
    prepare({.inputs = {input}, .out = out}, {.progress = [](int64_t done, int64_t total) {
              if (done > total * 3 / 4) raise(SIGKILL);
            }});
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(!fs::exists(out / "train.tokens"));
  CHECK(count_entries(out) > 0);  // the left-over
  prepare({.inputs = {input}, .out = out});
  CHECK(count_entries(out) == 3);
  CHECK(first_difference(decode_folder(out), read_text(input)) == -1);
}

TEST_CASE("two processes do not prepare into one folder", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "abc");
  const auto staging = dir / "out" / ".prepare.tmp-1-2";
  fs::create_directories(staging);
  {
    const auto lock = FileLock::try_acquire(staging / "lock");
    REQUIRE(lock);
    const auto [message, code] =
        failure_of([&] { prepare({.inputs = {input}, .out = dir / "out", .overwrite = true}); });
    CHECK(code == 2);
    CHECK_THAT(message, ContainsSubstring("another process (pid"));
  }
  prepare({.inputs = {input}, .out = dir / "out"});
  CHECK(count_entries(dir / "out") == 3);
}

TEST_CASE("a text that changes between the passes is noticed", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", repeat("abc\n", 600000));
  bool changed = false;
  const TextHooks hooks{.stop = [&] {
    if (!changed) write_text(input, repeat("cba\n", 600000));
    changed = true;
    return false;
  }};
  CHECK_THROWS_WITH(prepare({.inputs = {input}, .out = dir / "out"}, hooks),
                    ContainsSubstring("changed while it was being read"));
  CHECK(!fs::exists(dir / "out"));
}

TEST_CASE("two processes share a text, which must be the same for both", "[data]") {
  /// Two "processes" of one: threads.
  struct Channel {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> messages;
  };
  class ChannelExchange final : public BlockExchange {
   public:
    ChannelExchange(int64_t rank, Channel& channel) : BlockExchange(rank, 2), channel_(channel) {}
    void send(const std::string& message) override {
      const std::lock_guard lock(channel_.mutex);
      channel_.messages.push_back(message);
      channel_.changed.notify_all();
    }
    std::string receive(int64_t /*rank*/) override {
      std::unique_lock lock(channel_.mutex);
      channel_.changed.wait(lock, [&] { return !channel_.messages.empty(); });
      std::string message = std::move(channel_.messages.front());
      channel_.messages.pop_front();
      return message;
    }

   private:
    Channel& channel_;
  };
  const TempDir dir;
  std::string text = repeat("some text, \u65e5\n", 60000);  // 0.9 MB: four blocks
  const auto first = write_text(dir / "first.txt", text);
  const auto share = [&](const fs::path& second) {
    Channel channel;
    std::thread follower([&] {
      ChannelExchange exchange(1, channel);
      prepare({.inputs = {second}, .tokenizer = "byte", .out = dir / "unused"}, {}, &exchange);
    });
    std::string message;
    try {
      ChannelExchange exchange(0, channel);
      prepare({.inputs = {first}, .tokenizer = "byte", .out = dir / "out", .overwrite = true},
              {},
              &exchange);
    } catch (const DataError& error) {
      message = error.what();
    }
    follower.join();
    return message;
  };
  CHECK(share(first).empty());
  CHECK(first_difference(decode_folder(dir / "out"), text) == -1);
  CHECK_FALSE(fs::exists(dir / "unused"));
  text[10] = 'x';  // in rank 0's block: the other one encodes it for nobody
  CHECK_THAT(share(write_text(dir / "second.txt", text)),
             ContainsSubstring("rank 1: the text there is not rank 0's"));
}

TEST_CASE("memory does not grow with the text", "[data]") {
  if (kAddressSanitizer) TRIL_SKIP("the address sanitizer keeps freed memory");
  const TempDir dir;
  const auto peak_kib = [&](int n_pieces) {
    const std::string piece = repeat("some text, \u65e5\n", 50000);  // 0.75 MB
    const auto input = dir / "in.txt";
    fs::remove(input);
    for (int i = 0; i < n_pieces; ++i) {
      std::ofstream(input, std::ios::binary | std::ios::app) << piece;
    }
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    run_in_child([&] {
      // What is freed leaves the process: the peak is what prepare holds, not what malloc keeps.
      mallopt(M_MMAP_THRESHOLD, 64 * 1024);
      mallopt(M_TRIM_THRESHOLD, 64 * 1024);
      mallopt(M_ARENA_MAX, 1);
      prepare({.inputs = {input}, .out = dir / "out", .overwrite = true, .threads = 2});
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      const long peak = usage.ru_maxrss;
      if (write(pipe_ends[1], &peak, sizeof peak) < 0) _exit(98);
    });
    close(pipe_ends[1]);  // so that a child that said nothing ends the read
    long peak = 0;
    const bool told = read(pipe_ends[0], &peak, sizeof peak) == sizeof peak;
    close(pipe_ends[0]);
    REQUIRE(told);
    return peak;
  };
  // Both are more than is under way at a time: five blocks of 256 KiB and their ids.
  const long small = peak_kib(40);   // 30 MB
  const long large = peak_kib(160);  // 120 MB
  INFO("peak KiB " << small << " and " << large);
  CHECK(large - small < 4096);
}

TEST_CASE("a token file is described from its content", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "abca\u65e5");
  const PrepareResult result =
      prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "out"});
  const auto path = dir / "out" / "train.tokens";
  const TokenFileSummary summary = describe_token_file(path);
  CHECK(summary.header.count == 5);
  CHECK(summary.header.vocab_size == 4);
  CHECK(summary.distinct_ids == 4);
  CHECK(summary.highest_id == 3);
  CHECK(summary.text_bytes_per_token == Approx(7.0 / 5.0));
  CHECK(summary.content_fingerprint == fingerprint(read_text(path)));
  CHECK(summary.header.tokenizer_fingerprint == result.tokenizer->fingerprint());

  std::string bytes = read_text(path);
  bytes[kTokenFileHeaderBytes + 4] = 9;  // token 2
  write_text(path, bytes);
  CHECK_THROWS_WITH(describe_token_file(path),
                    ContainsSubstring("token 2 of") && ContainsSubstring("has id 9"));
  CHECK_THROWS_AS(describe_token_file(input), DataError);
}

TEST_CASE("describing covers a file longer than one piece, and an empty one", "[data]") {
  const TempDir dir;
  const auto path = dir / "t.tokens";
  {
    TokenFileWriter writer(path, 300, fingerprint("t"));
    for (int32_t i = 0; i < 70000; ++i)
      writer.append(std::vector<int32_t>{i == 69999 ? 299 : i % 7});
    writer.finish();
  }
  CHECK(describe_token_file(path).distinct_ids == 8);
  CHECK(describe_token_file(path).highest_id == 299);
  {
    TokenFileWriter writer(path, 300, fingerprint("t"));
    writer.finish();
  }
  CHECK(describe_token_file(path).highest_id == -1);
  CHECK(describe_token_file(path).text_bytes_per_token == 0);
}

TEST_CASE("token files of another tokenizer are refused", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "abcd");
  prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "out"});
  const auto path = dir / "out" / "train.tokens";
  CHECK(open_token_file_checked(path, CharTokenizer::from_text("abcd")).size() == 4);
  for (const char* other : {"abce", "abc"}) {  // of the same size, and a smaller one
    const auto [message, code] =
        failure_of([&] { open_token_file_checked(path, CharTokenizer::from_text(other)); });
    CHECK(code == 3);
    CHECK_THAT(
        message,
        ContainsSubstring(path.string()) && ContainsSubstring("prepared with another tokenizer"));
  }
  {
    TokenFileWriter writer(path, 300, make_byte_tokenizer()->fingerprint());
    writer.finish();
  }
  CHECK_THROWS_WITH(open_token_file_checked(path, *make_byte_tokenizer()),
                    ContainsSubstring("vocabulary of 300 is larger"));
}

TEST_CASE("the known small corpus is split as everybody splits it", "[data]") {
  const auto text = shared_data("tinyshakespeare.txt");
  if (!text) TRIL_SKIP("tinyshakespeare.txt is not here");
  const TempDir dir;
  const PrepareResult result = prepare({.inputs = {*text}, .out = dir / "out"});
  CHECK(result.tokenizer->vocab_size() == 65);
  CHECK(result.train.tokens == 1003854);
  CHECK(result.validation->tokens == 111540);
  CHECK(first_difference(decode_folder(dir / "out"), read_text(*text)) == -1);
}
