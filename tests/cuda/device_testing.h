// What the CUDA kernel tests share: operands that exist on both sides. Each kernel is compared with its reference twin,
// run in fp64 on the same (already rounded) inputs, within a bound that the test derives, plus one rounding to the
// storage type; and it must give the same bits twice. Without a device every test is skipped and says so.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device_error.h"
#include "kernels/cuda/operators.h"
#include "kernels/reference/storage.h"

namespace zeroplan::kernels::cuda::testing {

/// Unit roundoff of fp32.
constexpr double kRoundoff = 0x1p-24;

/// Unit roundoff of a storage type.
inline double roundoff(DType type) {
  return type == DType::kBf16 ? 0x1p-8 : type == DType::kFp16 ? 0x1p-11 : kRoundoff;
}

/// What rounding `value` to the type may cost; fp16 has no more than 2^-24 between its smallest numbers.
inline double storage_error(DType type, double value) {
  return roundoff(type) * std::abs(value) + (type == DType::kFp16 ? 0x1p-25 : 0x1p-140);
}

/// Device memory that lives as long as the object.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) { check_device(cudaMalloc(&data_, bytes + 16), "cudaMalloc"); }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  DeviceBytes(DeviceBytes&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  std::byte* get() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// A context with a workspace; the same for all tests of the program.
struct Gpu {
  static constexpr std::size_t kWorkspaceBytes = std::size_t{96} << 20;
  Context context{ContextOptions{}};
  DeviceBytes workspace{kWorkspaceBytes};
  Launch launch() { return {nullptr, &context, workspace.get(), kWorkspaceBytes}; }
};

inline Gpu& gpu() {
  static Gpu instance;
  return instance;
}

/// Why there is no device, or nothing.
inline std::string missing_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "no device found" : "";
}

#define ZP_NEEDS_DEVICE()                                        \
  do {                                                           \
    const std::string why = testing::missing_device();           \
    if (!why.empty()) GTEST_SKIP() << "no CUDA device: " << why; \
  } while (false)

/// Values on both sides. The reference sees them as fp64, the device in `dtype`; `offset` elements in front make the
/// device's pointer unaligned.
class Operand {
 public:
  Operand(DType dtype, std::vector<double> values, std::size_t offset = 0)
      : dtype_(dtype), offset_(offset), host_(std::move(values)), device_((host_.size() + offset) * size_of(dtype)) {
    for (double& value : host_) value = rounded(value);
    upload(host_);
  }
  static Operand random(DType dtype, std::size_t n, std::uint32_t seed, double spread = 1, std::size_t offset = 0) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0, spread);
    std::vector<double> values(n);
    for (double& value : values) value = normal(generator);
    return {dtype, std::move(values), offset};
  }
  /// An output: NaN on the device until it is written.
  static Operand output(DType dtype, std::size_t n, std::size_t offset = 0) {
    Operand result(dtype, std::vector<double>(n, 0), offset);
    result.poison();
    return result;
  }

  DType dtype() const { return dtype_; }
  std::size_t size() const { return host_.size(); }
  std::vector<double>& host() { return host_; }
  const std::vector<double>& host() const { return host_; }
  double* reference() { return host_.data(); }
  void* device() const { return device_.get() + offset_ * size_of(dtype_); }
  void* device_at(std::size_t element) const { return device_.get() + (offset_ + element) * size_of(dtype_); }

  void poison() { upload(std::vector<double>(host_.size(), std::numeric_limits<double>::quiet_NaN())); }
  void upload(const std::vector<double>& values) {
    const std::vector<std::byte> bytes = encoded(values);
    check_device(cudaMemcpy(device(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "upload");
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> result(host_.size() * size_of(dtype_));
    check_device(cudaMemcpy(result.data(), device(), result.size(), cudaMemcpyDeviceToHost), "download");
    return result;
  }
  std::vector<double> download() const {
    const std::vector<std::byte> raw = bytes();
    std::vector<double> values(host_.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = reference::load(dtype_, raw.data(), i);
    return values;
  }

  /// The device's values are within `bound` of the reference's, and one rounding of each of `roundings` stores.
  void expect_within(const std::function<double(std::size_t)>& bound, const char* name) const {
    const std::vector<double> actual = download();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double allowed = bound(i) + storage_error(dtype_, std::abs(host_[i]) + bound(i));
      ASSERT_LE(std::abs(actual[i] - host_[i]), allowed)
          << name << " " << to_string(dtype_) << ", element " << i << " of " << actual.size() << ": " << actual[i]
          << " for " << host_[i];
    }
  }
  void expect_relative(double relative, const char* name, double absolute = 0) const {
    expect_within([&](std::size_t i) { return relative * std::abs(host_[i]) + absolute; }, name);
  }

 private:
  double rounded(double value) const {
    std::byte raw[8];
    reference::store(dtype_, raw, 0, value);
    return reference::load(dtype_, raw, 0);
  }
  std::vector<std::byte> encoded(const std::vector<double>& values) const {
    std::vector<std::byte> result(values.size() * size_of(dtype_));
    for (std::size_t i = 0; i < values.size(); ++i) reference::store(dtype_, result.data(), i, values[i]);
    return result;
  }

  DType dtype_;
  std::size_t offset_;
  std::vector<double> host_;
  DeviceBytes device_;
};

/// Any plain values on the device.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()), device_(values.size() * sizeof(T)) {
    check_device(cudaMemcpy(get(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  T* get() const { return reinterpret_cast<T*>(device_.get()); }
  std::vector<T> download() const {
    std::vector<T> values(size_);
    check_device(cudaMemcpy(values.data(), get(), size_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return values;
  }

 private:
  std::size_t size_;
  DeviceBytes device_;
};

inline void finish() {
  check_device(cudaDeviceSynchronize(), "kernels");
}

/// Runs `call` twice from the same state of `outputs`; they must get the same bits.
inline void run_twice(const std::vector<const Operand*>& outputs, const std::function<void()>& call) {
  std::vector<std::vector<std::byte>> before;
  for (const Operand* output : outputs) before.push_back(output->bytes());
  call();
  finish();
  std::vector<std::vector<std::byte>> first;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    first.push_back(outputs[i]->bytes());
    check_device(cudaMemcpy(outputs[i]->device(), before[i].data(), before[i].size(), cudaMemcpyHostToDevice), "reset");
  }
  call();
  finish();
  for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i]->bytes(), first[i]) << "output " << i;
}

/// Each storage type in turn.
class EachType : public ::testing::TestWithParam<DType> {};

inline std::string type_name(const ::testing::TestParamInfo<DType>& info) {
  return std::string(to_string(info.param));
}

#define ZP_EACH_TYPE(suite)                                                                           \
  INSTANTIATE_TEST_SUITE_P(Types, suite, ::testing::Values(DType::kFp32, DType::kBf16, DType::kFp16), \
                           testing::type_name)

}  // namespace zeroplan::kernels::cuda::testing
