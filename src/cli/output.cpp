#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tril/base/error.h"

namespace tril::cli {

void write_out(std::string_view bytes) {
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() &&
      std::fflush(stdout) == 0) {
    return;
  }
  if (errno == EPIPE) throw ClosedPipe();
  throw ResourceError(fmt::format("stdout cannot be written: {}", std::strerror(errno)));
}

}  // namespace tril::cli
