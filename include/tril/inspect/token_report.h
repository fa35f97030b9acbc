#pragma once
// The surprise at each token for people and programs. No Torch here.

#include <cstdint>
#include <string>
#include <vector>

#include "tril/base/json.h"

namespace tril {

struct ReportedToken {
  int64_t id = 0;
  std::string text;  ///< its bytes
  double loss = 0;   ///< nats; of the first token, which nothing predicts: negative
  int64_t rank = 0;
  struct Guess {
    std::string text;
    double probability = 0;
  };
  std::vector<Guess> guesses;
};

struct TokenReport {
  std::string run;
  int64_t step = 0;
  int64_t vocab_size = 0;
  std::vector<ReportedToken> tokens;

  double mean_loss() const;  ///< over the predicted ones
};

/// One self-contained page: the text coloured by loss, what the model expected on hover, the loss
/// along the text, the most surprising tokens.
std::string token_page(const TokenReport& report);

/// {"run", "step", "loss", "tokens": [{"id", "text", "loss", "probability", "rank", "expected":
/// [{"text", "probability"}]}]}; the first token has no loss.
OrderedJson token_json(const TokenReport& report);

/// position,id,text,loss,probability,rank
std::string token_csv(const TokenReport& report);

/// For a terminal: the text, with `color` shaded by loss; and the most surprising tokens.
std::string token_text(const TokenReport& report, bool color);

}  // namespace tril
