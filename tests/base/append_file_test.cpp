#include "tril/base/append_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <string>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

TEST_CASE("lines are appended at once, after what is there", "[base]") {
  const TempDir dir;
  write_text(dir / "log", "old\n");
  AppendFile file(dir / "log");
  CHECK(file.error().empty());
  CHECK(file.write("one\n"));
  CHECK(read_text(dir / "log") == "old\none\n");
  CHECK(file.write("two\n"));
  CHECK(read_text(dir / "log") == "old\none\ntwo\n");
}

TEST_CASE("a line that does not fit is taken back, and later ones are tried again", "[base]") {
  const TempDir dir;
  AppendFile file(dir / "log");
  REQUIRE(file.write("whole\n"));
  // A file-size limit stands for a full disk: of 100 bytes, 14 fit.
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const bool written = file.write(std::string(100, 'x') + "\n");
  const std::string error = file.error();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK_FALSE(written);
  CHECK_FALSE(error.empty());
  CHECK(read_text(dir / "log") == "whole\n");
  CHECK(file.write("again\n"));
  CHECK(file.error().empty());
  CHECK(read_text(dir / "log") == "whole\nagain\n");
}

TEST_CASE("what is no plain file of this place is not written to", "[base]") {
  const TempDir dir;
  write_text(dir / "precious", "mine");
  fs::create_symlink(dir / "precious", dir / "link");
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  fs::create_directory(dir / "folder");
  for (const char* name : {"link", "fifo", "folder", "absent/log"}) {
    CAPTURE(name);
    AppendFile file(dir / name);
    CHECK_FALSE(file.error().empty());
    CHECK_FALSE(file.write("line\n"));
  }
  CHECK(AppendFile(dir / "link").error() == "it is a link");
  CHECK(read_text(dir / "precious") == "mine");
}

TEST_CASE("a log that is moved away while it grows is harmless", "[base]") {
  const TempDir dir;
  AppendFile file(dir / "log");
  REQUIRE(file.write("one\n"));
  fs::rename(dir / "log", dir / "log.1");
  CHECK(file.write("two\n"));  // into the file that was opened
  CHECK(read_text(dir / "log.1") == "one\ntwo\n");
}
