#include "runtime/device/device_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "models/core/error.h"

namespace zeroplan::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libzeroplan_cuda.so";
constexpr const char* kHint =
    "build it with -DZP_CUDA=ON and put libzeroplan_cuda.so beside zeroplan, or make the plan with --backend cpu";

std::string loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

std::vector<fs::path> DeviceLibrary::usual_paths() {
  std::error_code reason;
  const fs::path program = fs::read_symlink("/proc/self/exe", reason);
  if (reason) return {};
  const fs::path folder = program.parent_path();
  return {folder / kFileName, folder.parent_path() / "lib" / kFileName};
}

DeviceLibrary::DeviceLibrary(const std::vector<fs::path>& paths) {
  std::error_code ignored;
  for (const fs::path& path : paths) {
    if (!fs::exists(path, ignored)) continue;
    path_ = path;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why_not_ = loader_error();
      return;
    }
    const auto function =
        reinterpret_cast<kernels::DevicePluginFunction>(::dlsym(library, kernels::kDevicePluginSymbol));
    const kernels::DevicePlugin* plugin = function == nullptr ? nullptr : function();
    if (plugin == nullptr) {
      why_not_ = fmt::format("{} is no plug-in of zeroplan", path.string());
    } else if (plugin->abi != kernels::kDeviceAbi || plugin->call_bytes != sizeof(kernels::DeviceCall)) {
      why_not_ = fmt::format("{} was built for another version of zeroplan", path.string());
    } else {
      plugin_ = plugin;
    }
    return;
  }
  why_not_ = fmt::format("{} is not beside the program", kFileName);
}

std::unique_ptr<kernels::Device> DeviceLibrary::open_device(const kernels::DeviceOptions& options) const {
  if (plugin_ == nullptr) {
    throw Error(ErrorCode::kDevice, fmt::format("no CUDA back end: {}", why_not_)).hint(kHint);
  }
  return plugin_->open(options);
}

}  // namespace zeroplan::runtime
