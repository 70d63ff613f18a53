// Attention by cuDNN's graphs: 16-bit types, heads of at most 128 elements, no window. Purpose: one plan for each
// shape, built once. Main type: CudnnAttention. The backward pass is the deterministic one, which keeps d_score of
// whole sequences in its workspace, so it runs over as many sequences at once as fit. Belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/attention.h"
#include "kernels/cuda/context.h"

namespace zeroplan::kernels::cuda {

/// Takes arguments whose strides are not 0.
class CudnnAttention {
 public:
  /// Opens cuDNN, or returns none and says in `note` why; `note` is the version otherwise.
  static std::unique_ptr<CudnnAttention> open(std::string& note);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  /// Whether there is a plan for this call; it is built if it is new.
  /// \param workspace_bytes  what the call will offer
  bool prepare(const AttentionForward& args, std::size_t workspace_bytes);
  bool prepare(const AttentionBackward& args, std::size_t workspace_bytes);

  /// After prepare said yes.
  void enqueue(const AttentionForward& args, const Launch& launch);
  void enqueue(const AttentionBackward& args, const Launch& launch);

  /// Why the last shape that was refused was, in the library's words; for reports.
  const std::string& refusal() const;

 private:
  struct State;
  explicit CudnnAttention(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace zeroplan::kernels::cuda
