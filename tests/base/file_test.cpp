#include "tril/base/file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/base/log.h"

using namespace tril;
using tril::testing::TempDir;
using tril::testing::write_text;
namespace fs = std::filesystem;

namespace {

size_t entries_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Sets an environment variable (nullptr removes it) and restores it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Environment() { set(old_ ? old_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

/// Lets no file of this process grow over `bytes`, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

/// All bytes written to this process's stderr by `action`.
std::string capture_stderr(const fs::path& scratch, const std::function<void()>& action) {
  std::fflush(stderr);
  const int saved = ::dup(STDERR_FILENO);
  const int file = ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
  action();
  std::fflush(stderr);
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  return read_file(scratch, FileRole::kData);
}

}  // namespace

TEST_CASE("a file is read whole, byte for byte", "[base]") {
  const TempDir dir;
  const std::string bytes("a\0\r\n\xff", 5);
  write_text(dir / "f", bytes);
  CHECK(read_file(dir / "f", FileRole::kData) == bytes);
  write_text(dir / "empty", "");
  CHECK(read_file(dir / "empty", FileRole::kData).empty());
  // Says size 0 although it has content.
  CHECK(read_file("/proc/self/status", FileRole::kData).starts_with("Name:"));
}

TEST_CASE("a file over the limit is refused, one of exactly the limit is not", "[base]") {
  const TempDir dir;
  write_text(dir / "f", "12345");
  CHECK(read_file(dir / "f", FileRole::kConfig, 5) == "12345");
  CHECK_THROWS_WITH(read_file(dir / "f", FileRole::kConfig, 4),
                    ContainsSubstring("too large: 5 bytes, expected at most 4"));
  // The size a file announces is not trusted.
  CHECK_THROWS_WITH(read_file("/proc/self/status", FileRole::kData, 10),
                    ContainsSubstring("grew while being read, expected at most 10"));
}

TEST_CASE("what is no regular file is refused by kind, and never waited for", "[base]") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  const auto message = [](const fs::path& path) {
    std::string text;
    try {
      read_file(path, FileRole::kData);
    } catch (const DataError& error) {
      text = error.what();
    }
    CHECK_THROWS_WITH(MappedFile(path, FileRole::kData), text);
    CHECK_THROWS_WITH(fingerprint_file(path, FileRole::kData), text);
    return text;
  };
  CHECK_THAT(message(dir / "none"), ContainsSubstring("none: no such file"));
  CHECK_THAT(message(""), ContainsSubstring("an empty path"));
  CHECK_THAT(message(dir.path()), ContainsSubstring("it is a folder, expected a regular file"));
  CHECK_THAT(message(dir / "fifo"), ContainsSubstring("it is a pipe"));
  CHECK_THAT(message("/dev/zero"), ContainsSubstring("it is a character device"));
  write_text(dir / "line\nbreak.d", "");
  CHECK_THAT(message(dir / "line\nbreak.d" / "x"),
             ContainsSubstring("line\\nbreak.d/x: Not a dir"));
}

TEST_CASE("an unreadable file says that permission is denied", "[base]") {
  if (::geteuid() == 0) TRIL_SKIP("root may read everything");
  const TempDir dir;
  write_text(dir / "f", "x");
  fs::permissions(dir / "f", fs::perms::none);
  CHECK_THROWS_WITH(read_file(dir / "f", FileRole::kData), ContainsSubstring("permission denied"));
}

TEST_CASE("the role of a file decides the error", "[base]") {
  CHECK_THROWS_AS(read_file("no/such", FileRole::kConfig), ConfigError);
  CHECK_THROWS_AS(read_file("no/such", FileRole::kData), DataError);
  CHECK_THROWS_AS(read_file("no/such", FileRole::kCheckpoint), CheckpointError);
}

TEST_CASE("a map shows the bytes, moves, and takes an empty file", "[base]") {
  const TempDir dir;
  write_text(dir / "f", "abc");
  write_text(dir / "empty", "");
  MappedFile first(dir / "f", FileRole::kData);
  MappedFile second(std::move(first));
  REQUIRE(second.bytes().size() == 3);
  CHECK(std::to_integer<char>(second.bytes()[2]) == 'c');
  CHECK(second.path() == dir / "f");
  second = MappedFile(dir / "empty", FileRole::kData);
  CHECK(second.bytes().empty());
}

TEST_CASE("a writer keeps order over its buffer and rewrites earlier bytes", "[base]") {
  const TempDir dir;
  const std::string large(3'000'000, 'L');
  {
    FileWriter file(dir / "f");
    file.write("....");
    file.write(large);
    file.write("end");
    file.write_at(0, "HEAD", 4);
    file.write("!");
    CHECK(file.bytes_written() == 4 + large.size() + 4);
    file.finish();
  }
  CHECK(read_file(dir / "f", FileRole::kData) == "HEAD" + large + "end!");
}

TEST_CASE("a writer that is not finished leaves nothing behind", "[base]") {
  const TempDir dir;
  {
    FileWriter file(dir / "f");
    file.write("half");
    CHECK(fs::exists(dir / "f"));
  }
  CHECK(entries_in(dir.path()) == 0);
}

TEST_CASE("a full disk is a ResourceError that names the file and keeps the old one", "[base]") {
  const TempDir dir;
  write_text(dir / "f", "old");
  const std::string large(3'000'000, 'L');
  {
    const FileSizeLimit limit(1'500'000);
    CHECK_THROWS_AS(write_file_atomically(dir / "f", large), ResourceError);
    CHECK_THROWS_WITH(write_file_atomically(dir / "f", large),
                      ContainsSubstring("f.tmp-") && ContainsSubstring("file-size limit"));
    // Small pieces fail when the buffer is flushed, at the latest in finish().
    FileWriter file(dir / "pieces");
    CHECK_THROWS_AS(
        [&] {
          for (int i = 0; i < 3'000; ++i) file.write(large.substr(0, 1'000));
          file.finish();
        }(),
        ResourceError);
  }
  CHECK(read_file(dir / "f", FileRole::kData) == "old");
  CHECK(entries_in(dir.path()) == 1);
}

TEST_CASE("a place that cannot be written is refused with its reason", "[base]") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_AS(FileWriter(dir / "none" / "f"), ConfigError);
  CHECK_THROWS_WITH(FileWriter(dir / "none" / "f"), ContainsSubstring("folder does not exist"));
  CHECK_THROWS_WITH(FileWriter(dir.path()), ContainsSubstring("it is a folder"));
  CHECK_THROWS_WITH(FileWriter(dir / "fifo"), ContainsSubstring("pipe"));
  CHECK_THROWS_WITH(FileWriter("/dev/null"), ContainsSubstring("character device"));
  CHECK_THROWS_WITH(write_file_atomically(dir.path(), "x"), ContainsSubstring("it is a folder"));
  CHECK(fs::exists("/dev/null"));
  CHECK(entries_in(dir.path()) == 1);
}

TEST_CASE("an atomic write replaces the content and leaves no temporary file", "[base]") {
  const TempDir dir;
  write_file_atomically(dir / "f", "one");
  write_file_atomically(dir / "f", "two");
  CHECK(read_file(dir / "f", FileRole::kData) == "two");
  CHECK(entries_in(dir.path()) == 1);
}

TEST_CASE("temporary names are unique, in the same folder, and recognised", "[base]") {
  std::set<fs::path> names;
  for (int i = 0; i < 100; ++i) names.insert(temporary_sibling("a/b.json"));
  CHECK(names.size() == 100);
  for (const fs::path& name : names) {
    CHECK(name.parent_path() == "a");
    CHECK(is_temporary_name(name));
  }
  CHECK(temporary_sibling("a/b/").parent_path() == "a");
  CHECK(temporary_sibling(std::string(255, 'x')).string().size() <= 255);
  for (const char* name : {"b.json",
                           ".b.tmp-",
                           ".b.tmp-1",
                           ".b.tmp-1-",
                           ".b.tmp-1-x",
                           ".b.tmp-x-1",
                           "b.tmp-1-1",
                           ".b.tmp--1",
                           ".tmp-1-1",
                           ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}

TEST_CASE("a lock is exclusive, names its owner and ends with its holder", "[base]") {
  const TempDir dir;
  std::string owner;
  {
    const auto first = FileLock::try_acquire(dir / "lock");
    REQUIRE(first);
    CHECK_FALSE(FileLock::try_acquire(dir / "lock", &owner));
    CHECK_THAT(owner, ContainsSubstring("pid " + std::to_string(::getpid()) + " on host "));
  }
  auto second = FileLock::try_acquire(dir / "lock");
  REQUIRE(second);
  const FileLock moved(std::move(*second));
  CHECK_FALSE(FileLock::try_acquire(dir / "lock"));
  // A lock on a file that is no longer the named one protects nothing.
  fs::remove(dir / "lock");
  CHECK(FileLock::try_acquire(dir / "lock"));
  CHECK_THROWS_AS(FileLock::try_acquire(dir / "none" / "lock"), ConfigError);
}

TEST_CASE("a lock is waited for until another process ends", "[base]") {
  const TempDir dir;
  int ready[2];
  int waiting[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(waiting) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto lock = FileLock::try_acquire(dir / "lock");
    char go = 0;
    const bool told = ::write(ready[1], "x", 1) == 1 && ::read(waiting[0], &go, 1) == 1;
    ::usleep(20'000);  // most likely the other process blocks by now
    // What the waiter has open is then no longer the named file.
    fs::remove(dir / "lock");
    write_text(dir / "lock", "");
    ::_exit(lock && told ? 0 : 1);  // the lock ends with the process, not by the destructor
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  std::string owner;
  const FileLock lock = FileLock::acquire(dir / "lock", [&](const std::string& who) {
    owner = who;
    CHECK(::write(waiting[1], "x", 1) == 1);
  });
  CHECK_THAT(owner, ContainsSubstring("pid " + std::to_string(child) + " on host "));
  CHECK_FALSE(FileLock::try_acquire(dir / "lock"));
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  for (const int fd : {ready[0], ready[1], waiting[0], waiting[1]}) ::close(fd);
}

TEST_CASE("the cache folder follows TRIL_CACHE, XDG_CACHE_HOME, HOME, in this order", "[base]") {
  const TempDir dir;
  const Environment chosen("TRIL_CACHE", (dir / "chosen/deep").c_str());
  const Environment xdg("XDG_CACHE_HOME", (dir / "xdg").c_str());
  const Environment home("HOME", (dir / "home").c_str());
  CHECK(cache_folder() == dir / "chosen/deep");
  CHECK(fs::is_directory(dir / "chosen/deep"));
  const Environment no_choice("TRIL_CACHE", "");
  CHECK(cache_folder() == dir / "xdg/tril");
  const Environment relative_xdg("XDG_CACHE_HOME", "relative");
  CHECK(cache_folder() == dir / "home/.cache/tril");
  const Environment no_home("HOME", nullptr);
  const Environment temporary("TMPDIR", dir.path().c_str());
  CHECK(cache_folder().parent_path() == dir.path());
  write_text(dir / "file", "");
  const Environment bad_choice("TRIL_CACHE", (dir / "file").c_str());
  CHECK_THROWS_WITH(cache_folder(), ContainsSubstring("TRIL_CACHE="));
}

TEST_CASE("fingerprints are XXH3-128 in canonical form, also in pieces", "[base]") {
  // The published test value of XXH3-128 for the empty input.
  CHECK(fingerprint(std::string_view()) == "99aa06d3014798d86001c324468d497f");
  std::string bytes;
  for (int i = 0; i < 5'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  FingerprintStream stream;
  size_t at = 0;
  for (size_t n = 1; at < bytes.size(); n = n * 3 + 1) {
    const std::string piece = bytes.substr(at, n);
    stream.update(piece.data(), piece.size());
    at += piece.size();
  }
  CHECK(stream.hex() == fingerprint(bytes));
  const TempDir dir;
  write_text(dir / "f", bytes);
  CHECK(fingerprint_file(dir / "f", FileRole::kData) == fingerprint(bytes));
  bytes[4'000] = static_cast<char>(bytes[4'000] ^ 1);
  CHECK(fingerprint(bytes) != stream.hex());
}

TEST_CASE("the terminal gets plain messages at its level, the log file all of them", "[base]") {
  const TempDir dir;
  const std::string terminal = capture_stderr(dir / "stderr", [&] {
    init_logging("warn");
    add_log_file(dir / "train.log");
    spdlog::info("step {}", 1);
    spdlog::warn("slow disk");
    remove_log_file();
    spdlog::warn("after");
    init_logging("info");
    spdlog::info("plain");
  });
  CHECK(terminal == "warning: slow disk\nwarning: after\nplain\n");
  const std::string log = read_file(dir / "train.log", FileRole::kData);
  CHECK_THAT(log, ContainsSubstring("info     step 1\n") && ContainsSubstring("slow disk\n"));
  CHECK(std::count(log.begin(), log.end(), '\n') == 2);
}

TEST_CASE("a log file that cannot be written is reported once", "[base]") {
  const TempDir dir;
  const std::string terminal = capture_stderr(dir / "stderr", [&] {
    init_logging("error");
    add_log_file("/dev/full");
    spdlog::info("one");
    spdlog::info("two");
    add_log_file(dir / "none" / "train.log");
    spdlog::info("three");
    remove_log_file();
    init_logging("info");
  });
  CHECK_THAT(terminal, ContainsSubstring("/dev/full: it is not a regular file"));
  CHECK_THAT(terminal, ContainsSubstring("train.log: No such file"));
  CHECK(std::count(terminal.begin(), terminal.end(), '\n') == 2);
}

TEST_CASE("an unknown log level is a ConfigError that lists the known ones", "[base]") {
  CHECK_THROWS_AS(init_logging("verbose"), ConfigError);
  CHECK_THROWS_WITH(init_logging("verbose"), ContainsSubstring("\"verbose\", expected trace"));
}
