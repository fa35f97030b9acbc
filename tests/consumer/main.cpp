// The library from outside: a small GPT learns one sentence, then continues its beginning.

#include <fmt/format.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tril/generate/generator.h"
#include "tril/model/gpt.h"
#include "tril/model/init.h"
#include "tril/model/loss.h"
#include "tril/optim/adamw.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/parameters.h"
#include "tril/tokenizer/char_tokenizer.h"

int main() {
  const std::string text = "the fox saw the crow, and the crow saw the fox.\n";
  const auto tokenizer = tril::CharTokenizer::from_text(text);
  const auto ids = tokenizer.encode(text);

  tril::ModelConfig config = tril::model_preset(tril::Preset::kModern);
  config.context_length = 32;
  config.n_embed = 32;
  config.n_head = 2;
  config.n_blocks = 2;
  config.vocab_size = tokenizer.vocab_size();
  tril::GPT model(config);
  tril::initialize(model, /*seed=*/1);

  // One window of T + 1 ids gives inputs [0, T) and targets [1, T].
  const auto window =
      torch::tensor(std::vector<int64_t>(ids.begin(), ids.begin() + config.context_length + 1));
  const auto inputs = window.slice(0, 0, -1).unsqueeze(0);  // (1, T)
  const auto targets = window.slice(0, 1).unsqueeze(0);     // (1, T)

  const tril::OptimizerConfig optimizer_config{.learning_rate = 1e-2};
  tril::AdamW optimizer(tril::unique_parameters(*model), optimizer_config);
  double previous_loss = 1e9;
  for (int step = 1; step <= 3; ++step) {
    const auto loss = tril::training_loss(model, inputs, targets);
    loss.backward();
    const auto norm = tril::gradient_norm(optimizer.gradients(), optimizer_config.grad_clip);
    optimizer.step(optimizer_config.learning_rate, norm);
    optimizer.zero_grad();
    fmt::print("step {}  loss {:.4f} nats per token\n", step, loss.item<double>());
    if (!(loss.item<double>() < previous_loss)) {
      fmt::print(stderr, "consumer: expected a falling loss\n");
      return 1;
    }
    previous_loss = loss.item<double>();
  }

  const std::vector<int64_t> prompt(ids.begin(), ids.begin() + 8);
  const auto generation = tril::generate(model, tokenizer, prompt, {.max_new_tokens = 12});
  fmt::print("{}|{}\n", tokenizer.decode(prompt), generation.text);
  return generation.ids.size() == 12 ? 0 : 1;
}
