// A backend's module that was compiled with an interface that never was.
#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) std::uint64_t plumbline_interface() { return 0x7beef; }
extern "C" __attribute__((visibility("default"))) void* plumbline_open_backend() { std::abort(); }
