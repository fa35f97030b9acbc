#pragma once
// Evaluation mode (no dropout) for a scope.

#include "tril/model/gpt.h"

namespace tril {

/// Puts a model into evaluation mode while alive; the mode before comes back at the end, also when
/// an error ends the scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(GPT& model) : model_(model), was_training_(model->is_training()) {
    model_->eval();
  }
  ~EvaluationMode() { model_->train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  GPT& model_;
  bool was_training_;
};

}  // namespace tril
