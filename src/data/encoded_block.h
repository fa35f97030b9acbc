#pragma once
// A block of text as ids, and the messages in which processes hand blocks to the first one.

#include <cstdint>
#include <string>
#include <vector>

#include "document_reader.h"
#include "tril/base/error.h"
#include "tril/distributed/block_exchange.h"

namespace tril {

/// A block's text as documents, and their ids.
struct EncodedBlock {
  std::string text;  ///< kept by a scan only
  std::vector<TextPiece> pieces;
  std::vector<int32_t> ids;
  std::vector<size_t> id_ends;  ///< of each piece
  CarriageReturns carriage_returns;
  int64_t owner = 0;  ///< the process that has encoded it

  /// Empty again, with the memory it has.
  void clear() {
    text.clear();
    pieces.clear();
    ids.clear();
    id_ends.clear();
    carriage_returns = {};
    owner = 0;
  }
};

/// To rank 0: everything but the text.
void send_block(BlockExchange& exchange, const EncodedBlock& block);
/// The error that comes in a block's place.
void send_failure(BlockExchange& exchange, const Error& error);
/// The next block of `rank`, or its error, thrown here.
EncodedBlock receive_block(BlockExchange& exchange, int64_t rank);

}  // namespace tril
