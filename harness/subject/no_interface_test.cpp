// A backend's module of a time when modules named no interface.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) void* plumbline_open_backend() { std::abort(); }
