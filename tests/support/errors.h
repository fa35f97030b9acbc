#pragma once
// What an action throws, as text.

#include <string>

#include "tril/base/error.h"

namespace tril::testing {

/// The message of the `Expected` error that `action` throws; "no error" without one. Errors of
/// other kinds pass through.
template <class Expected = Error, class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tril::testing
