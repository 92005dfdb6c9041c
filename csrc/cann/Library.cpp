#include "cann/Library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "cann/Acl.h"
#include "cann/Env.h"

namespace torch_npu::cann {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLibCount = 6;
constexpr std::array<const char*, kLibCount> kFileNames = {
    "libascendcl.so", "libacl_op_compiler.so", "libnnopbase.so", "libopapi.so", "libhccl.so",
    "libhcomm.so"};

// Exported by the emulator alone, under whatever name it was reached.
constexpr const char* kMarker = "npu_emulator_interface";

size_t indexOf(Lib lib) {
  return static_cast<size_t>(lib);
}

// One library, or the reasons why none of the candidates could be opened.
struct Opened {
  void* handle = nullptr;
  std::string failure;
};

Opened openFirst(const std::vector<std::string>& candidates, int flags) {
  Opened result;
  for (const std::string& candidate : candidates) {
    result.handle = dlopen(candidate.c_str(), flags | RTLD_LOCAL);
    if (result.handle != nullptr) return {result.handle, ""};
    const char* reason = dlerror();
    result.failure += c10::str("\n  ", candidate, ": ",
                               reason != nullptr ? reason : "unknown reason");
  }
  return result;
}

std::string fileOf(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

bool looksLikeNpuMachine() {
  if (env::isSet("ASCEND_HOME_PATH")) return true;
  std::error_code ignored;  // an unreadable /dev has no device for us either
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    if (entry.path().filename().string().starts_with("davinci")) return true;
  }
  return false;
}

// Folders of custom operator packages: each holds op_api/lib/libcust_opapi.so.
std::vector<std::string> customOperatorPackages() {
  std::vector<std::string> packages;
  const std::string custom = env::text("ASCEND_CUSTOM_OPP_PATH");
  for (size_t begin = 0; begin < custom.size();) {
    const size_t end = std::min(custom.find(':', begin), custom.size());
    if (end > begin) packages.push_back(custom.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::string opp = env::text("ASCEND_OPP_PATH");
  std::error_code ignored;  // no vendors folder: no custom operators
  if (!opp.empty()) {
    for (const auto& entry : fs::directory_iterator(fs::path(opp) / "vendors", ignored)) {
      if (entry.is_directory(ignored)) packages.push_back(entry.path());
    }
  }
  return packages;
}

class Loader {
 public:
  // Never destroyed: symbols are looked up until the process ends.
  static Loader& instance() {
    static Loader* loader = new Loader;
    return *loader;
  }

  Provider provider() {
    std::lock_guard lock(mutex_);
    load();
    return *provider_;
  }

  std::string path() {
    std::lock_guard lock(mutex_);
    load();
    return path_;
  }

  void* find(Lib lib, const char* name) {
    std::lock_guard lock(mutex_);
    load();
    for (void* handle : handlesOf(lib)) {
      if (void* address = dlsym(handle, name)) return address;
    }
    return nullptr;
  }

  std::string whyAbsent(Lib lib, const char* name) {
    std::lock_guard lock(mutex_);
    const std::string& failure = failures_[indexOf(lib)];
    return failure.empty() ? c10::str(kFileNames[indexOf(lib)], " has no function ", name)
                           : c10::str(kFileNames[indexOf(lib)], " could not be opened:", failure);
  }

 private:
  void load() {
    if (provider_.has_value()) return;
    const std::string choice = env::text("TORCH_NPU_CANN");
    TORCH_CHECK_VALUE(choice == "auto" || choice == "real" || choice == "emulator",
                      "environment variable TORCH_NPU_CANN: expected auto, real or emulator, got '",
                      choice, "'");
    const bool real = choice == "real" || (choice == "auto" && looksLikeNpuMachine());
    real ? openVendor() : openEmulator();

    void* handle = handles_[indexOf(Lib::Acl)].front();
    const bool emulated = dlsym(handle, kMarker) != nullptr;
    void* address = dlsym(handle, "aclrtGetDeviceCount");
    path_ = fileOf(address);
    if (!emulated && !real) {
      forget();
      TORCH_CHECK(false, path_, " is not the NPU emulator: it lacks the marker ", kMarker,
                  ". Check TORCH_NPU_EMULATOR_PATH.");
    }
    if (emulated && choice == "real") {
      forget();
      TORCH_CHECK(
          false, "TORCH_NPU_CANN=real, but ", path_, " is the NPU emulator. Point ",
          "ASCEND_HOME_PATH and LD_LIBRARY_PATH to a CANN installation, or unset TORCH_NPU_CANN.");
    }
    provider_ = emulated ? Provider::Emulator : Provider::Cann;
  }

  void openVendor() {
    Opened runtime = openFirst(candidates(Lib::Acl), RTLD_LAZY);
    TORCH_CHECK(runtime.handle != nullptr,
                env::text("TORCH_NPU_CANN") == "real"
                    ? "TORCH_NPU_CANN=real, but CANN cannot be loaded."
                    : "This machine looks like it has an NPU (ASCEND_HOME_PATH is set or "
                      "/dev/davinci* exists), "
                      "but CANN cannot be loaded.",
                " Tried:", runtime.failure,
                "\nInstall CANN and `source` its set_env.sh, or set TORCH_NPU_CANN=emulator to run "
                "on the CPU "
                "emulator on purpose.");
    handles_[indexOf(Lib::Acl)] = {runtime.handle};
  }

  void openEmulator() {
    const std::string given = env::text("TORCH_NPU_EMULATOR_PATH");
    emulatorFolder_ =
        !given.empty()
            ? given
            : (fs::path(fileOf(&kFileNames)).parent_path().parent_path() / "emulator").string();
    const std::string file = (fs::path(emulatorFolder_) / "libnpu_emulator.so").string();
    Opened emulator = openFirst({file}, RTLD_NOW);
    TORCH_CHECK(
        emulator.handle != nullptr, "The NPU emulator cannot be loaded:", emulator.failure, "\n",
        given.empty()
            ? "It is part of the torch_npu package: reinstall it, or run `make build` in a "
              "checkout."
            : "TORCH_NPU_EMULATOR_PATH must name the folder that holds libnpu_emulator.so.");
    for (Lib lib : {Lib::Acl, Lib::OpCompiler, Lib::Nnopbase, Lib::Hccl, Lib::Hcomm}) {
      handles_[indexOf(lib)] = {emulator.handle};
    }
  }

  void forget() {
    handles_ = {};
    failures_ = {};
    path_.clear();
    emulatorFolder_.clear();
  }

  // Vendor's libraries in the order in which they are asked.
  std::vector<std::string> candidates(Lib lib) const {
    std::vector<std::string> files;
    const std::string home = env::text("ASCEND_HOME_PATH");
    if (!home.empty())
      files.push_back((fs::path(home) / "lib64" / kFileNames[indexOf(lib)]).string());
    files.emplace_back(kFileNames[indexOf(lib)]);
    return files;
  }

  const std::vector<void*>& handlesOf(Lib lib) {
    std::vector<void*>& handles = handles_[indexOf(lib)];
    if (!handles.empty() || tried_[indexOf(lib)]) return handles;
    tried_[indexOf(lib)] = true;
    if (!emulatorFolder_.empty()) {  // only the operators are not open yet
      Opened operators = openFirst(
          {(fs::path(emulatorFolder_) / "libnpu_emulator_ops.so").string()}, RTLD_NOW);
      failures_[indexOf(lib)] = operators.failure;
      if (operators.handle != nullptr) handles.push_back(operators.handle);
    } else if (lib == Lib::OpApi) {
      openVendorOperators(handles);
    } else {
      Opened library = openFirst(candidates(lib), RTLD_LAZY);
      failures_[indexOf(lib)] = library.failure;
      if (library.handle != nullptr) handles.push_back(library.handle);
    }
    return handles;
  }

  // Custom packages shadow CANN's own operators. Newer CANNs split libopapi.so by topic, into
  // libopapi_<topic>.so or libaclnn_<topic>.so: whatever exists is searched.
  void openVendorOperators(std::vector<void*>& handles) {
    std::vector<std::string> files;
    for (const std::string& package : customOperatorPackages()) {
      const fs::path file = fs::path(package) / "op_api" / "lib" / "libcust_opapi.so";
      if (fs::exists(file)) files.push_back(file);
    }
    const std::string home = env::text("ASCEND_HOME_PATH");
    std::error_code ignored;  // no lib64: the bare names below still go through LD_LIBRARY_PATH
    if (!home.empty()) {
      for (const auto& entry : fs::directory_iterator(fs::path(home) / "lib64", ignored)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("libopapi_") && name.ends_with(".so")) files.push_back(entry.path());
      }
    }
    for (const std::string& file : files) {
      Opened library = openFirst({file}, RTLD_LAZY);
      TORCH_CHECK(library.handle != nullptr, "operator library cannot be opened:", library.failure);
      handles.push_back(library.handle);
    }
    Opened own = openFirst(candidates(Lib::OpApi), RTLD_LAZY);
    if (own.handle != nullptr) handles.push_back(own.handle);
    for (const char* topic : {"ops_infer", "ops_train", "math", "sparse", "fft", "rand"}) {
      Opened library = openFirst({c10::str("libaclnn_", topic, ".so")}, RTLD_LAZY);
      if (library.handle != nullptr) handles.push_back(library.handle);
    }
    if (handles.empty()) failures_[indexOf(Lib::OpApi)] = own.failure;
  }

  // Guards all below. Held while libraries are opened, whose initialisers do not call back here.
  std::mutex mutex_;
  std::optional<Provider> provider_;
  std::string path_;
  std::string emulatorFolder_;  // "" unless the emulator was opened under its own name
  std::array<std::vector<void*>, kLibCount> handles_;
  std::array<bool, kLibCount> tried_{};
  std::array<std::string, kLibCount> failures_;
};

}  // namespace

Provider provider() {
  return Loader::instance().provider();
}

std::string providerPath() {
  return Loader::instance().path();
}

namespace {

const char* whyEmulated() {
  if (env::text("TORCH_NPU_CANN") == "emulator") return "TORCH_NPU_CANN=emulator";
  return looksLikeNpuMachine() ? "the library under CANN's name is our emulator" : "no CANN found";
}

}  // namespace

void announceEmulator() {
  static std::mutex* mutex = new std::mutex;  // so that threads that start together print one line
  std::lock_guard lock(*mutex);
  if (provider() != Provider::Emulator || env::flag("TORCH_NPU_EMULATOR_ANNOUNCED")) return;
  setenv("TORCH_NPU_EMULATOR_ANNOUNCED", "1", 1);
  // A launcher other than npurun never loaded us: the first rank of the node speaks for all.
  if (env::integer("LOCAL_RANK", 0) != 0) return;
  uint32_t devices = 0;
  int64_t bytes = 0;
  aclrtGetDeviceCount.check(&devices);
  aclrtGetDeviceInfo.check(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &bytes);
  std::fprintf(stderr,
               "torch_npu: %s, using the emulator (%u devices, %.1f GiB each); "
               "results are real, speed is not an NPU's\n",
               whyEmulated(), devices, static_cast<double>(bytes) / (1u << 30));
}

std::string cannVersion() {
  if (aclsysGetCANNVersion.available()) {
    aclCANNPackageVersion version{};
    if (aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version) == ACL_SUCCESS) return version.version;
  }
  return "";
}

const char* libraryName(Lib lib) noexcept {
  return kFileNames[indexOf(lib)];
}

void* findSymbol(Lib lib, const char* name) {
  return Loader::instance().find(lib, name);
}

void* requireSymbol(Lib lib, const char* name) {
  void* address = findSymbol(lib, name);
  if (address != nullptr) return address;
  const std::string version = cannVersion();
  TORCH_CHECK_NOT_IMPLEMENTED(false, Loader::instance().whyAbsent(lib, name), " (",
                              provider() == Provider::Emulator ? "the NPU emulator" : "CANN", " ",
                              version.empty() ? "of unknown version" : version, " at ",
                              providerPath(),
                              "). This feature needs it: use a CANN version that has it.");
}

}  // namespace torch_npu::cann
