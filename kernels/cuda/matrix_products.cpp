#include "kernels/cuda/matrix_products.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <cublasLt.h>

#include "kernels/cuda/device_error.h"
#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::kDevice, std::string("cuBLASLt, ") + what + ": " + cublasLtGetStatusString(status));
}

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::kFp32:
      return CUDA_R_32F;
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kFp16:
      return CUDA_R_16F;
    default:
      throw Error(ErrorCode::kUnsupported, "no CUDA kernel for elements of type " + std::string(to_string(type)));
  }
}

/// Bytes that a pointer is aligned to, at most 256.
std::uint32_t alignment_of(const void* pointer) {
  const auto bits = reinterpret_cast<std::uintptr_t>(pointer) | 256;
  return 1u << static_cast<unsigned>(std::countr_zero(bits));
}

/// All that the choice of an algorithm depends on.
struct Key {
  DType dtype, c_dtype;
  std::size_t m, n, k;
  bool transpose_a, transpose_b;
  std::size_t a_stride, b_stride, c_stride;
  bool bias, accumulate;
  std::uint32_t a_alignment, b_alignment, c_alignment;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const MatrixProduct& p) {
  return {p.dtype,
          p.c_dtype,
          p.m,
          p.n,
          p.k,
          p.transpose_a,
          p.transpose_b,
          p.a_stride,
          p.b_stride,
          p.c_stride,
          p.bias != nullptr,
          p.accumulate,
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.c)};
}

/// An owned descriptor of the library.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "an operation's attribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)), "a preference");
}

/// Descriptors and algorithm of one shape. The library counts columns first: a row-major C = op(A) op(B) is its C^T =
/// op(B)^T op(A)^T, so B comes first and the transpositions stay.
struct Prepared {
  Operation operation;
  Layout first, second, result;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  ///< none: the plain kernel
};

void describe(Prepared& prepared, const Key& key, bool allow_tf32) {
  const bool tf32 = allow_tf32 && key.dtype == DType::kFp32;
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(prepared.operation.out(), compute, CUDA_R_32F), "an operation");
  const cublasOperation_t first = key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(prepared.operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(prepared.operation.get(), CUBLASLT_MATMUL_DESC_TRANSB, second);
  if (key.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t bias_type = data_type(key.dtype);
    set(prepared.operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(prepared.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
  }
  const cudaDataType_t type = data_type(key.dtype);
  const auto layout = [](Layout& to, cudaDataType_t of, std::size_t rows, std::size_t columns, std::size_t stride) {
    check(cublasLtMatrixLayoutCreate(to.out(), of, rows, columns, static_cast<std::int64_t>(stride)), "a layout");
  };
  layout(prepared.first, type, key.transpose_b ? key.k : key.n, key.transpose_b ? key.n : key.k, key.b_stride);
  layout(prepared.second, type, key.transpose_a ? key.m : key.k, key.transpose_a ? key.k : key.m, key.a_stride);
  layout(prepared.result, data_type(key.c_dtype), key.n, key.m, key.c_stride);
}

/// The heuristic's first choice among algorithms that need no more than `workspace_bytes` and sum in fp32.
std::optional<cublasLtMatmulAlgo_t> choose(cublasLtHandle_t handle, const Prepared& prepared, const Key& key,
                                           std::size_t workspace_bytes) {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(preference.out()), "a preference");
  const std::uint64_t bytes = workspace_bytes;
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
  set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, prepared.operation.get(), prepared.first.get(), prepared.second.get(), prepared.result.get(),
      prepared.result.get(), preference.get(), 1, &result, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return result.algo;
}

const void* moved(const void* base, std::size_t elements, DType type) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + elements * size_of(type);
}

/// The columns of C from `first` on.
MatrixProduct columns_of(MatrixProduct p, std::size_t first, std::size_t count) {
  p.b = moved(p.b, p.transpose_b ? first * p.b_stride : first, p.dtype);
  p.c = const_cast<void*>(moved(p.c, first, p.c_dtype));
  p.bias = moved(p.bias, first, p.dtype);
  p.n = count;
  return p;
}

MatrixProduct rows_of(MatrixProduct p, std::size_t first, std::size_t count) {
  p.a = moved(p.a, p.transpose_a ? first : first * p.a_stride, p.dtype);
  p.c = const_cast<void*>(moved(p.c, first * p.c_stride, p.c_dtype));
  p.m = count;
  return p;
}

/// The terms of the sums from `first` on, added where C is not complete without the others.
MatrixProduct terms_of(MatrixProduct p, std::size_t first, std::size_t count, bool adds) {
  p.a = moved(p.a, p.transpose_a ? first * p.a_stride : first, p.dtype);
  p.b = moved(p.b, p.transpose_b ? first : first * p.b_stride, p.dtype);
  p.k = count;
  if (adds) p.accumulate = true;
  return p;
}

/// Calls `visit` with the product or, one after the other, with its parts.
template <class Visit>
void for_each_part(const MatrixProduct& p, Visit&& visit) {
  constexpr std::size_t kAligned = 8;
  constexpr std::size_t kLarge = 1024;
  const auto cuts = [](std::size_t extent) { return extent > kLarge && extent % kAligned != 0; };
  const std::size_t n = p.n / kAligned * kAligned, m = p.m / kAligned * kAligned, k = p.k / kAligned * kAligned;
  if (cuts(p.n)) {
    visit(columns_of(p, 0, n));
    visit(columns_of(p, n, p.n - n));
  } else if (p.transpose_a && cuts(p.m)) {
    visit(rows_of(p, 0, m));
    visit(rows_of(p, m, p.m - m));
  } else if ((!p.transpose_a || p.transpose_b) && p.bias == nullptr && cuts(p.k)) {
    visit(terms_of(p, k, p.k - k, false));
    visit(terms_of(p, 0, k, true));
  } else {
    visit(p);
  }
}

}  // namespace

struct MatrixProducts::State {
  ContextOptions options;
  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<Key, Prepared> prepared;

  Prepared& find(const MatrixProduct& product) {
    const Key key = key_of(product);
    const auto [at, is_new] = prepared.try_emplace(key);
    if (is_new) {
      describe(at->second, key, options.allow_tf32);
      at->second.algorithm = choose(handle.get(), at->second, key, options.workspace_bytes);
    }
    return at->second;
  }
  void enqueue(const MatrixProduct& product, const Launch& launch);
};

MatrixProducts::MatrixProducts(const ContextOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  check(cublasLtCreate(state_->handle.out()), "start");
}

MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::prepare(const MatrixProduct& product) {
  if (product.m * product.n * product.k == 0) return;
  for_each_part(product, [&](const MatrixProduct& part) { state_->find(part); });
}

void MatrixProducts::enqueue(const MatrixProduct& product, const Launch& launch) {
  if (product.m * product.n == 0) return;
  if (product.k == 0) return enqueue_plain_product(product, launch);
  for_each_part(product, [&](const MatrixProduct& part) { state_->enqueue(part, launch); });
}

void MatrixProducts::State::enqueue(const MatrixProduct& product, const Launch& launch) {
  ZP_CHECK(launch.workspace_bytes >= options.workspace_bytes);
  Prepared& prepared = find(product);
  if (!prepared.algorithm) return enqueue_plain_product(product, launch);
  if (product.bias != nullptr) set(prepared.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  const float alpha = 1;
  const float beta = product.accumulate ? 1 : 0;
  check(cublasLtMatmul(handle.get(), prepared.operation.get(), &alpha, product.b, prepared.first.get(), product.a,
                       prepared.second.get(), &beta, product.c, prepared.result.get(), product.c, prepared.result.get(),
                       &*prepared.algorithm, launch.workspace, options.workspace_bytes, launch.stream),
        "a product");
}

}  // namespace zeroplan::kernels::cuda
