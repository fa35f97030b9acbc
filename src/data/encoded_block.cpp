#include "encoded_block.h"

#include <cstring>
#include <type_traits>

namespace tril {
namespace {

// The processes are the same program: numbers travel as they are in memory.

template <typename T>
void put(std::string& out, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const uint64_t n = values.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
  out.append(reinterpret_cast<const char*>(values.data()), n * sizeof(T));
}

/// Takes values from the front of a message.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  std::vector<T> take() {
    uint64_t n = 0;
    copy(&n, sizeof n);
    if (n > bytes_.size() / sizeof(T)) throw_short();
    std::vector<T> values(n);
    copy(values.data(), n * sizeof(T));
    return values;
  }

 private:
  void copy(void* out, size_t n_bytes) {
    if (n_bytes > bytes_.size()) throw_short();
    if (n_bytes > 0) std::memcpy(out, bytes_.data(), n_bytes);
    bytes_.remove_prefix(n_bytes);
  }
  [[noreturn]] static void throw_short() {
    throw PeerError("a process sent half a block; are all of them the same version of tril?");
  }

  std::string_view bytes_;
};

constexpr char kBlock = 'B';
constexpr char kFailure = 'F';  // then the exit code as a byte, and the message

}  // namespace

void send_block(BlockExchange& exchange, const EncodedBlock& block) {
  std::string message(1, kBlock);
  put(message, block.pieces);
  put(message, block.ids);
  put(message, block.id_ends);
  put(message, std::vector<CarriageReturns>{block.carriage_returns});
  exchange.send(message);
}

void send_failure(BlockExchange& exchange, const Error& error) {
  std::string message(1, kFailure);
  message += static_cast<char>(error.exit_code());
  exchange.send(message + error.what());
}

EncodedBlock receive_block(BlockExchange& exchange, int64_t rank) {
  const std::string message = exchange.receive(rank);
  const auto content = std::string_view(message).substr(message.empty() ? 0 : 1);
  if (message.starts_with(kFailure) && !content.empty()) {
    throw Error(static_cast<unsigned char>(content[0]), std::string(content.substr(1)));
  }
  Unpacker unpacker(content);
  EncodedBlock block;
  block.pieces = unpacker.take<TextPiece>();
  block.ids = unpacker.take<int32_t>();
  block.id_ends = unpacker.take<size_t>();
  const auto carriage_returns = unpacker.take<CarriageReturns>();
  if (!message.starts_with(kBlock) || carriage_returns.size() != 1 ||
      block.id_ends.size() != block.pieces.size()) {
    throw PeerError("a process sent no block where one was due");
  }
  block.carriage_returns = carriage_returns[0];
  block.owner = rank;
  return block;
}

}  // namespace tril
