// The plug-in's one exported symbol.
#include "kernels/cuda/plugin/device.h"

extern "C" __attribute__((visibility("default"))) const zeroplan::kernels::DevicePlugin* zeroplan_device_plugin() {
  using zeroplan::kernels::Device;
  using zeroplan::kernels::DeviceOptions;
  using zeroplan::kernels::DevicePlugin;
  static const DevicePlugin kPlugin{zeroplan::kernels::kDeviceAbi, sizeof(zeroplan::kernels::DeviceCall), ZP_VERSION,
                                    [](const DeviceOptions& options) -> std::unique_ptr<Device> {
                                      return std::make_unique<zeroplan::kernels::cuda::CudaDevice>(options);
                                    }};
  return &kPlugin;
}
