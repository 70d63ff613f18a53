#include "kernels/cuda/cudnn_library.h"

#include <utility>

#include <dlfcn.h>

#include "models/core/error.h"

namespace zeroplan::kernels::cuda {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const char* CudnnLibrary::find_functions() {
  if (!find(library_, "cudnnBackendCreateDescriptor", create_descriptor)) return "cudnnBackendCreateDescriptor";
  if (!find(library_, "cudnnBackendDestroyDescriptor", destroy_descriptor)) return "cudnnBackendDestroyDescriptor";
  if (!find(library_, "cudnnBackendSetAttribute", set_attribute)) return "cudnnBackendSetAttribute";
  if (!find(library_, "cudnnBackendGetAttribute", get_attribute)) return "cudnnBackendGetAttribute";
  if (!find(library_, "cudnnBackendFinalize", finalize)) return "cudnnBackendFinalize";
  if (!find(library_, "cudnnBackendExecute", execute)) return "cudnnBackendExecute";
  if (!find(library_, "cudnnSetStream", set_stream)) return "cudnnSetStream";
  if (!find(library_, "cudnnCreate", create_)) return "cudnnCreate";
  if (!find(library_, "cudnnDestroy", destroy_)) return "cudnnDestroy";
  if (!find(library_, "cudnnGetVersion", get_version_)) return "cudnnGetVersion";
  if (!find(library_, "cudnnGetErrorString", get_error_string_)) return "cudnnGetErrorString";
  if (!find(library_, "cudnnGetLastErrorString", get_last_error_string_)) return "cudnnGetLastErrorString";
  return nullptr;
}

std::unique_ptr<CudnnLibrary> CudnnLibrary::open(std::string& note) {
  std::unique_ptr<CudnnLibrary> library(new CudnnLibrary());
  library->library_ = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library->library_ == nullptr) {
    const char* why = dlerror();
    note = why != nullptr ? why : "libcudnn.so.9 cannot be opened";
    return nullptr;
  }
  if (const char* missing = library->find_functions(); missing != nullptr) {
    note = std::string("libcudnn.so.9 has no ") + missing;
    return nullptr;
  }
  const cudnnStatus_t status = library->create_(&library->handle_);
  if (status != CUDNN_STATUS_SUCCESS) {
    library->handle_ = nullptr;
    note = std::string("cudnnCreate: ") + library->get_error_string_(status);
    return nullptr;
  }
  const std::size_t version = library->get_version_();
  note =
      std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  return library;
}

CudnnLibrary::~CudnnLibrary() {
  if (handle_ != nullptr) destroy_(handle_);
  if (library_ != nullptr) dlclose(library_);
}

void CudnnLibrary::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[256] = {};
  get_last_error_string_(more, sizeof(more));
  throw Error(ErrorCode::kDevice,
              std::string("cuDNN, ") + what + ": " + get_error_string_(status) + (more[0] != 0 ? ": " : "") + more);
}

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type) : library_(&library) {
  library.check(library.create_descriptor(type, &descriptor_), "a descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) library_->destroy_descriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(other.library_), descriptor_(other.descriptor_) {
  other.descriptor_ = nullptr;
}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  library_->check(library_->set_attribute(descriptor_, name, type, count, values), "an attribute");
}

void CudnnDescriptor::finalize(const char* what) {
  library_->check(library_->finalize(descriptor_), what);
}

bool CudnnDescriptor::try_finalize() {
  return library_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS;
}

}  // namespace zeroplan::kernels::cuda
