// Which CANN this process talks to (the vendor's or the emulator), and its libraries, opened on
// demand.
#pragma once

#include <cstdint>
#include <string>

namespace torch_npu::cann {

enum class Provider : uint8_t { Cann, Emulator };

// The library a function lives in. A library is opened when the first of its functions is looked
// up.
enum class Lib : uint8_t { Acl, OpCompiler, Nnopbase, OpApi, Hccl, Hcomm };

// Loads the runtime library at the first call (nothing is opened at import) and tells whose it is.
// Throws c10::Error with what was tried and how to mend it; a failed load is tried again next time.
Provider provider();

// If it is the emulator: says so on stderr, once in a tree of processes (the environment
// remembers). Nobody may take its speed for a device's. Called when a device is first used; merely
// loading the library is not worth a line, since torch counts devices in programs that use none.
void announceEmulator();

// File of the loaded runtime library, as the dynamic linker knows it.
std::string providerPath();

// CANN's own version string, or "" where this CANN cannot tell.
std::string cannVersion();

const char* libraryName(Lib lib) noexcept;

// Address of `name`, or nullptr when this CANN does not have it. Throws only if no CANN can be
// loaded.
void* findSymbol(Lib lib, const char* name);

// As findSymbol, but an absent name is an error that says which library and CANN version lack it.
void* requireSymbol(Lib lib, const char* name);

}  // namespace torch_npu::cann
