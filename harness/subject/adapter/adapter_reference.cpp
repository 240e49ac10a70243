// The reference's adapter as a program of its own, for the tests of this folder.
#include <cstdio>

#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

int main() {
  try {
    return plumbline::adapter::serve_adapter();
  } catch (const plumbline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
