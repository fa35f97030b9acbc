// Looking into a model: maps, surprise, spectra.

#include <cmath>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/inspect/attention_maps.h"
#include "tril/inspect/token_losses.h"
#include "tril/inspect/weight_report.h"
#include "tril/model/loss.h"
#include "tril/train/block_statistics.h"

using namespace tril;
using namespace tril::testing;

namespace {

std::vector<int64_t> ids_of(const torch::Tensor& ids) {
  const auto row = ids[0].contiguous();
  return {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()};
}

}  // namespace

TEST_CASE("every map has rows that sum to 1, and zeros where the mask is", "[inspect]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    ModelConfig config = tiny_config(preset);
    config.dropout = 0.2;  // off while looking
    GPT model = tiny_model(config);
    model->train();
    const auto ids = ids_of(tiny_ids(1, 7));
    const AttentionMaps maps = attention_maps(model, ids);
    CHECK(model->is_training());
    CHECK(maps.path_difference < 1e-5);
    REQUIRE(maps.heads.size() == 4);
    for (const auto& head : maps.heads) {
      REQUIRE(head.weights.size() == 49);
      CHECK(head.weights[0] == 1.0F);
      for (size_t i = 0; i < 7; ++i) {
        double sum = 0;
        for (size_t j = 0; j < 7; ++j) {
          const double w = head.weights[i * 7 + j];
          if (j > i) CHECK(w == 0);
          sum += w;
        }
        CHECK(sum == Approx(1.0).margin(1e-5));
      }
    }
    CHECK(attention_maps(model, ids).heads[3].weights == maps.heads[3].weights);
  }
}

TEST_CASE("maps are those of the model's own forward pass", "[inspect]") {
  // The last block's input, formed by the model itself, through the last head.
  const ModelConfig config = tiny_config(Preset::kGpt2);
  GPT model = tiny_model(config);
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto ids = tiny_ids(1, 8);
  auto x = model->token_embedding(ids) + model->position_embedding->weight.narrow(0, 0, 8);
  x = model->blocks[0]->as<BlockImpl>()->forward(x);
  auto* block = model->blocks[1]->as<BlockImpl>();
  const auto expected = block->attn->heads[1]->as<HeadImpl>()->attention(block->ln1(x)).weights[0];
  const AttentionMaps maps = attention_maps(model, ids_of(ids), {.block = 1, .head = 1});
  REQUIRE(maps.heads.size() == 1);
  CHECK(maps.heads[0].block == 1);
  CHECK_CLOSE(torch::tensor(maps.heads[0].weights).view({8, 8}), expected, kFp32Tolerance);
}

TEST_CASE("the three tokens of docs/attention.md, by hand", "[inspect]") {
  ModelConfig config = tiny_config(Preset::kGpt2);
  config.n_embed = 2;
  config.n_head = 1;
  config.qkv_bias = false;
  const torch::NoGradGuard no_grad;
  Head head(config, make_attention_tables(config));
  for (auto* linear : {&head->query, &head->key, &head->value}) {
    (*linear)->weight.copy_(torch::eye(2));
  }
  const auto x = torch::tensor({{1.0F, 0.0F}, {0.0F, 1.0F}, {1.0F, 1.0F}}).unsqueeze(0);
  const HeadAttention result = head->attention(x);
  const auto weights = torch::tensor(
      {{1.0, 0.0, 0.0}, {0.3302, 0.6698, 0.0}, {0.2483, 0.2483, 0.5035}}, torch::kFloat64);
  const auto output =
      torch::tensor({{1.0, 0.0}, {0.3302, 0.6698}, {0.7517, 0.7517}}, torch::kFloat64);
  CHECK_CLOSE(result.weights[0], weights, 1e-4);  // four digits on the page
  CHECK_CLOSE(result.output[0], output, 1e-4);
}

TEST_CASE("one token has a map, and a head that is not there is named with the range",
          "[inspect]") {
  GPT model = tiny_model(tiny_config());
  const std::vector<int64_t> one{3};
  CHECK(attention_maps(model, one).heads[0].weights == std::vector<float>{1});
  CHECK_THROWS_WITH(attention_maps(model, one, {.block = -1}),
                    ContainsSubstring("--block -1") && ContainsSubstring("0 to 1"));
  CHECK_THROWS_WITH(attention_maps(model, one, {.head = 99}), ContainsSubstring("heads 0 to 1"));
}

TEST_CASE("weights that are not finite are no map", "[inspect]") {
  GPT model = tiny_model(tiny_config());
  const torch::NoGradGuard no_grad;
  model->token_embedding->weight.fill_(std::nan(""));
  const std::vector<int64_t> ids{1, 2, 3};
  CHECK_THROWS_AS(attention_maps(model, ids), CheckpointError);
  CHECK_THROWS_AS(token_surprise(model, ids), CheckpointError);
  CHECK_THROWS_AS(summarize_weights(model), CheckpointError);
}

TEST_CASE("surprise is the loss of each token, in the windows of an evaluation", "[inspect]") {
  GPT model = tiny_model(tiny_config());
  const auto ids = ids_of(tiny_ids(1, 19));  // two windows of 8 targets and one of 2
  const auto surprise = token_surprise(model, ids, 32);
  REQUIRE(surprise.size() == 18);
  for (size_t begin = 0; begin < 18; begin += 8) {
    const auto n = static_cast<int64_t>(std::min<size_t>(8, 18 - begin));
    const auto all =
        torch::tensor(ids, torch::kInt64).narrow(0, static_cast<int64_t>(begin), n + 1);
    const auto losses =
        token_losses(model, all.narrow(0, 0, n).unsqueeze(0), all.narrow(0, 1, n).unsqueeze(0));
    for (int64_t i = 0; i < n; ++i) {
      CHECK(surprise[begin + static_cast<size_t>(i)].loss ==
            Approx(losses[0][i].item<double>()).margin(1e-5));
    }
  }
  for (size_t k = 0; k < surprise.size(); ++k) {
    const auto& s = surprise[k];
    double sum = 0;
    for (const auto& guess : s.guesses) sum += guess.probability;
    CHECK(sum == Approx(1).margin(1e-6));  // all 32 ids
    CHECK(s.guesses[static_cast<size_t>(s.rank)].id == ids[k + 1]);
    CHECK(s.guesses[static_cast<size_t>(s.rank)].probability == Approx(std::exp(-s.loss)));
  }
  CHECK_THROWS_AS(token_surprise(model, std::vector<int64_t>{1}), DataError);
}

TEST_CASE("singular values agree with a full decomposition", "[inspect]") {
  const GPT model = tiny_model(tiny_config());
  for (const auto& w : summarize_weights(model)) {
    if (w.spectrum.empty()) continue;
    const auto parameter = model->named_parameters()[w.name];
    const auto expected = torch::linalg_svdvals(parameter.detach().to(torch::kFloat64));
    INFO(w.name);
    REQUIRE(static_cast<int64_t>(w.spectrum.size()) == expected.size(0));
    CHECK_CLOSE(torch::tensor(w.spectrum, torch::kFloat64), expected, 1e-6);
    CHECK(w.spectral_norm == w.spectrum.front());
    const double rank = expected.square().sum().item<double>() / std::pow(w.spectral_norm, 2);
    CHECK(w.stable_rank == Approx(rank));
  }
}

TEST_CASE("neighbours in the embedding are the rows of the same direction", "[inspect]") {
  GPT model = tiny_model(tiny_config());
  const torch::NoGradGuard no_grad;
  auto rows = model->token_embedding->weight;
  rows[5].copy_(3 * rows[9]);
  rows[6].copy_(-rows[9]);
  const auto near = embedding_neighbours(model, {9}, 32, 31);
  REQUIRE(near.at(0).nearest.size() == 31);
  CHECK(near[0].nearest.front().id == 5);
  CHECK(near[0].nearest.front().cosine == Approx(1).margin(1e-5));
  CHECK(near[0].nearest.back().id == 6);
  CHECK(embedding_neighbours(model, {0}, 1, 5).empty());
}

TEST_CASE("the norms of the parts make up the norm of the whole", "[train]") {
  GPT model = tiny_model(tiny_config(Preset::kClassic));
  const auto ids = tiny_ids(2, 8);
  training_loss(model, ids, ids).backward();
  const auto parameters = unique_parameters(*model);
  double squares = 0;
  for (const auto& p : parameters) squares += p.tensor.grad().square().sum().item<double>();
  const BlockStatistics plain = block_statistics(parameters, std::sqrt(squares));
  CHECK(plain.names == std::vector<std::string>{"embedding", "block 0", "block 1", "head"});
  double sum = 0;
  for (const double norm : plain.grad_norm) sum += norm * norm;
  CHECK(sum == Approx(squares).epsilon(1e-6));
  const auto embedding = model->token_embedding->weight.square().sum().item<double>() +
                         model->position_embedding->weight.square().sum().item<double>();
  CHECK(plain.weight_rms[0] == Approx(std::sqrt(embedding / (32 * 16 + 8 * 16))));
  // What an optimizer scaled is scaled back.
  for (const auto& p : parameters) p.tensor.mutable_grad().mul_(0.01);
  const BlockStatistics scaled = block_statistics(parameters, std::sqrt(squares));
  for (size_t i = 0; i < 4; ++i)
    CHECK(scaled.grad_norm[i] == Approx(plain.grad_norm[i]).epsilon(1e-5));
}
