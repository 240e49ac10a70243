// Included before every file of a wheel: takes functions of libstdc++ under the oldest version of their symbols, so
// that what GCC 12 and newer compile also runs where libstdc++ is of GCC 11 (RHEL 9, manylinux_2_34).
//
// condition_variable::wait  has a new version since it may be cancelled (GCC 12); its code serves both.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif
