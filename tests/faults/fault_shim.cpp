// A library to preload (LD_PRELOAD) that stands between a program and its files, so that faults
// come at chosen instants. Only files below $TRIL_FAULT_ROOT count. Every call that changes a file
// or a folder is an operation, numbered from 1. $TRIL_FAULT says what happens:
//
//   kill N              SIGKILL at operation N (a write is half done then)
//   signal N S          signal S just before operation N
//   signals N S M       signal S just before operation N, and again before operation M
//   fail N E            operation N and all later ones that would take space fail with errno E
//   fail-once N E       operation N fails with errno E
//   slow U              every operation takes U microseconds more
//   clock               the wall clock jumps by ten years, forth and back, at every 7th reading
//   log FILE            appends one line per operation to FILE (outside the root)
//   count FILE          writes the number of operations to FILE at the end

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Open = int(const char*, int, ...);
using Write = ssize_t(int, const void*, size_t);
using Pwrite = ssize_t(int, const void*, size_t, off_t);

struct Plan {
  const char* root = std::getenv("TRIL_FAULT_ROOT");
  std::array<char, 32> kind{};
  std::array<char, PATH_MAX> file{};
  long at = 0;
  long value = 0;
  long second = 0;
  Plan() {
    const char* text = std::getenv("TRIL_FAULT");
    if (text == nullptr || root == nullptr) {
      root = nullptr;
      return;
    }
    if (std::sscanf(text, "%31s %ld %ld %ld", kind.data(), &at, &value, &second) < 2) {
      std::sscanf(text, "%31s %4095s", kind.data(), file.data());
    }
  }
  bool is(const char* name) const { return std::strcmp(kind.data(), name) == 0; }
};

const Plan& plan() {
  static const Plan instance;
  return instance;
}

std::atomic<long> g_operations{0};

bool is_below_root(const char* path) {
  if (plan().root == nullptr || path == nullptr) return false;
  std::array<char, 2 * PATH_MAX> whole{};
  if (path[0] != '/') {
    std::array<char, PATH_MAX> here{};
    if (getcwd(here.data(), here.size()) == nullptr) return false;
    std::snprintf(whole.data(), whole.size(), "%s/%s", here.data(), path);
    path = whole.data();
  }
  return std::strncmp(path, plan().root, std::strlen(plan().root)) == 0;
}

/// The path behind a descriptor, or "".
void path_of(int fd, std::array<char, PATH_MAX>& out) {
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link.data(), out.data(), out.size() - 1);
  out[n > 0 ? static_cast<size_t>(n) : 0] = '\0';
}

bool is_below_root(int fd) {
  if (plan().root == nullptr) return false;
  std::array<char, PATH_MAX> path{};
  path_of(fd, path);
  return is_below_root(path.data());
}

/// A path relative to a folder's descriptor, made whole.
bool is_below_root(int folder, const char* path) {
  if (path != nullptr && path[0] == '/') return is_below_root(path);
  return folder == AT_FDCWD ? is_below_root(path) : is_below_root(folder);
}

enum class Verdict { kGoOn, kFail, kKill };

/// Counts an operation, and says what is to happen to it. `takes_space`: a full disk refuses it.
Verdict operation(const char* name, const char* what, bool takes_space) {
  const Plan& p = plan();
  const long n = ++g_operations;
  if (p.is("slow")) usleep(static_cast<useconds_t>(p.at));
  if (p.is("log")) {
    std::array<char, PATH_MAX + 64> line{};
    const int length = std::snprintf(line.data(), line.size(), "%s %s\n", name, what);
    const int fd =
        real<Open>("open")(p.file.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0 && length > 0) {
      real<Write>("write")(fd, line.data(), static_cast<size_t>(length));
      close(fd);
    }
  }
  if (p.is("kill") && n == p.at) return Verdict::kKill;
  if (p.is("signal") && n == p.at) raise(static_cast<int>(p.value));
  if (p.is("signals") && (n == p.at || n == p.second)) raise(static_cast<int>(p.value));
  const bool fails = (p.is("fail") && n >= p.at && takes_space) || (p.is("fail-once") && n == p.at);
  if (fails) {
    errno = static_cast<int>(p.value);
    return Verdict::kFail;
  }
  return Verdict::kGoOn;
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

/// For operations that are done or not done.
bool may_go_on(const char* name, const char* what, bool takes_space) {
  switch (operation(name, what, takes_space)) {
    case Verdict::kGoOn:
      return true;
    case Verdict::kFail:
      return false;
    case Verdict::kKill:
      die();
  }
  return true;
}

int open_counted(const char* function, const char* path, int flags, mode_t mode) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && is_below_root(path) && !may_go_on("open", path, (flags & O_CREAT) != 0)) return -1;
  return real<Open>(function)(path, flags, mode);
}

struct CountAtEnd {
  ~CountAtEnd() {
    if (plan().root == nullptr || !plan().is("count")) return;
    std::array<char, 32> text{};
    const int n = std::snprintf(text.data(), text.size(), "%ld\n", g_operations.load());
    const int fd =
        real<Open>("open")(plan().file.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || n <= 0) return;
    real<Write>("write")(fd, text.data(), static_cast<size_t>(n));
    close(fd);
  }
} g_count_at_end;

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_counted("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_counted("open64", path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t n_bytes) {
  if (is_below_root(fd)) {
    std::array<char, PATH_MAX> path{};
    path_of(fd, path);
    switch (operation("write", path.data(), true)) {
      case Verdict::kGoOn:
        break;
      case Verdict::kFail:
        return -1;
      case Verdict::kKill:
        real<Write>("write")(fd, data, n_bytes / 2);
        die();
    }
  }
  return real<Write>("write")(fd, data, n_bytes);
}

ssize_t pwrite(int fd, const void* data, size_t n_bytes, off_t offset) {
  if (is_below_root(fd)) {
    std::array<char, PATH_MAX> path{};
    path_of(fd, path);
    switch (operation("pwrite", path.data(), true)) {
      case Verdict::kGoOn:
        break;
      case Verdict::kFail:
        return -1;
      case Verdict::kKill:
        real<Pwrite>("pwrite")(fd, data, n_bytes / 2, offset);
        die();
    }
  }
  return real<Pwrite>("pwrite")(fd, data, n_bytes, offset);
}

int fsync(int fd) {
  if (is_below_root(fd)) {
    std::array<char, PATH_MAX> path{};
    path_of(fd, path);
    if (!may_go_on("fsync", path.data(), true)) return -1;
  }
  return real<int(int)>("fsync")(fd);
}

int ftruncate(int fd, off_t length) {
  if (is_below_root(fd) && !may_go_on("ftruncate", "", false)) return -1;
  return real<int(int, off_t)>("ftruncate")(fd, length);
}

int rename(const char* from, const char* to) {
  if (is_below_root(to)) {
    std::array<char, 2 * PATH_MAX> what{};
    std::snprintf(what.data(), what.size(), "%s %s", from, to);
    if (!may_go_on("rename", what.data(), false)) return -1;
  }
  return real<int(const char*, const char*)>("rename")(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (is_below_root(to)) {
    std::array<char, 2 * PATH_MAX> what{};
    std::snprintf(what.data(), what.size(), "%s %s", from, to);
    if (!may_go_on("rename", what.data(), false)) return -1;
  }
  return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(
      from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  if (is_below_root(path) && !may_go_on("unlink", path, false)) return -1;
  return real<int(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* path, int flags) {
  if (is_below_root(folder, path) && !may_go_on("unlink", path, false)) return -1;
  return real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

int rmdir(const char* path) {
  if (is_below_root(path) && !may_go_on("rmdir", path, false)) return -1;
  return real<int(const char*)>("rmdir")(path);
}

int mkdir(const char* path, mode_t mode) {
  if (is_below_root(path) && !may_go_on("mkdir", path, true)) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

int clock_gettime(clockid_t clock, timespec* time) {
  const int result = real<int(clockid_t, timespec*)>("clock_gettime")(clock, time);
  if (clock == CLOCK_REALTIME && plan().root != nullptr && plan().is("clock")) {
    static std::atomic<long> readings{0};
    const long n = ++readings / 7;
    constexpr long kTenYears = 315360000;
    if (n % 3 == 1) time->tv_sec += kTenYears;
    if (n % 3 == 2) time->tv_sec -= kTenYears;
  }
  return result;
}

}  // extern "C"
