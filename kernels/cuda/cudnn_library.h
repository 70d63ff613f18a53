// cuDNN, opened at run time where it is found. Purpose: the plug-in loads and trains without it. Main types:
// CudnnLibrary, CudnnDescriptor. Uses the headers of cuDNN, links nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cudnn.h>

namespace zeroplan::kernels::cuda {

/// The functions that are used, with a handle for the device that is current when it is opened.
class CudnnLibrary {
 public:
  /// Opens libcudnn.so.9, or returns none and says in `note` why; `note` is the version otherwise.
  static std::unique_ptr<CudnnLibrary> open(std::string& note);
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  /// \throws Error{kDevice} with the library's words and `what`, unless `status` is success.
  void check(cudnnStatus_t status, const char* what) const;

  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;

 private:
  CudnnLibrary() = default;
  /// The name of a function that is missing, or null.
  const char* find_functions();

  void* library_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  decltype(&cudnnCreate) create_ = nullptr;
  decltype(&cudnnDestroy) destroy_ = nullptr;
  decltype(&cudnnGetVersion) get_version_ = nullptr;
  decltype(&cudnnGetErrorString) get_error_string_ = nullptr;
  decltype(&cudnnGetLastErrorString) get_last_error_string_ = nullptr;
};

/// An owned descriptor of cuDNN's backend.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  /// One value of the type that the attribute has.
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  void finalize(const char* what);
  /// As finalize, but says whether the library takes it.
  bool try_finalize();

 private:
  const CudnnLibrary* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace zeroplan::kernels::cuda
