"""The system calls that a confined process has: an allow-list, so that a call which Linux gains later is refused.

It holds what Python, torch, CUDA, TileLang and compilers call. Calls are not in it that leave the process group, the
core, the stop or the referee's clock. Nor are those that reach another process, change its priority, or stay for
others. Among them are `setsid`, `setpgid`, `sched_setaffinity`, `ptrace`, `connect`, `io_uring_setup`, `unshare` and
`keyctl`. A timer or a message queue of POSIX can send the SIGCONT that undoes a stop. Shared memory of System V
outlives its process.
"""

from typing import Final

# Name, number on x86-64, number on aarch64; "-" where there is none.
_FILES: Final = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
    preadv2 327 286, pwritev2 328 287, open 2 -, openat 257 56, openat2 437 437, creat 85 -, close 3 57,
    close_range 436 436, lseek 8 62, stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -,
    faccessat 269 48, faccessat2 439 439, statfs 137 43, fstatfs 138 44, truncate 76 45, ftruncate 77 46,
    fallocate 285 47, fadvise64 221 223, readahead 187 213, fsync 74 82, fdatasync 75 83, sync_file_range 277 84,
    copy_file_range 326 285, sendfile 40 71, splice 275 76, tee 276 77, getdents 78 -, getdents64 217 61, getcwd 79 17,
    chdir 80 49, fchdir 81 50, rename 82 -, renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34, rmdir 84 -,
    link 86 -, linkat 265 37, unlink 87 -, unlinkat 263 35, symlink 88 -, symlinkat 266 36, readlink 89 -,
    readlinkat 267 78, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, umask 95 166, utime 132 -,
    utimes 235 -, utimensat 280 88, futimesat 261 -, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10,
    listxattr 194 11, llistxattr 195 12, flistxattr 196 13, flock 73 32, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -,
    pipe2 293 59, ioctl 16 29, memfd_create 319 279
"""
_WAITING: Final = """
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21,
    epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, signalfd 282 -,
    signalfd4 289 74, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, inotify_init 253 -,
    inotify_init1 294 26, inotify_add_watch 254 27, inotify_rm_watch 255 28, futex 202 98, futex_waitv 449 449,
    futex_wake 454 454, futex_wait 455 455, futex_requeue 456 456, nanosleep 35 101, clock_nanosleep 230 115,
    pause 34 -, restart_syscall 219 128
"""
_MEMORY: Final = """
    mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, msync 26 227, mincore 27 232, madvise 28 233,
    brk 12 214, mlock 149 228, mlock2 325 284, munlock 150 229, membarrier 324 283, get_mempolicy 239 236,
    set_mempolicy 238 237, mbind 237 235, pkey_alloc 330 289, pkey_free 331 290, pkey_mprotect 329 288
"""
_ITSELF: Final = """
    exit 60 93, exit_group 231 94, execve 59 221, execveat 322 281, fork 57 -, vfork 58 -, wait4 61 260, waitid 247 95,
    getpid 39 172, getppid 110 173, gettid 186 178, getpgid 121 155, getpgrp 111 -, getsid 124 156, getuid 102 174,
    geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150,
    getrlimit 97 163, setrlimit 160 164, getrusage 98 165, getpriority 140 141, times 100 153, sysinfo 99 179,
    uname 63 160, getcpu 309 168, getrandom 318 278, capget 125 90, arch_prctl 158 -, set_tid_address 218 96,
    set_robust_list 273 99, get_robust_list 274 100, rseq 334 293, sched_yield 24 124, sched_getaffinity 204 123,
    sched_getparam 143 121, sched_getscheduler 145 120, sched_getattr 315 275, sched_get_priority_max 146 125,
    sched_get_priority_min 147 126, sched_rr_get_interval 148 127, clock_gettime 228 113, clock_getres 229 114,
    gettimeofday 96 169, time 201 -, getitimer 36 102, setitimer 38 103, alarm 37 -
"""
_SIGNALS: Final = """
    kill 62 129, tkill 200 130, tgkill 234 131, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
    rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132
"""
_SOCKETS: Final = """
    socketpair 53 199, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, getsockname 51 204,
    getpeername 52 205, setsockopt 54 208, getsockopt 55 209, sendto 44 206, recvfrom 45 207, sendmsg 46 211,
    recvmsg 47 212, shutdown 48 210
"""
# Allowed but for some values of an argument: see ``confinement``.
_BY_ARGUMENT: Final = """
    fcntl 72 25, prctl 157 167, socket 41 198, prlimit64 302 261, clone 56 220
"""
MACHINES: Final = ("x86_64", "aarch64")


def _numbers() -> dict[str, tuple[int | None, int | None]]:
    text = ",".join((_FILES, _WAITING, _MEMORY, _ITSELF, _SIGNALS, _SOCKETS, _BY_ARGUMENT))
    calls = (each.split() for each in text.split(","))
    return {name: (_number(x86_64), _number(aarch64)) for name, x86_64, aarch64 in calls}


def _number(told: str) -> int | None:
    return None if told == "-" else int(told)


_NUMBERS: Final = _numbers()


def number_of(call: str, machine: str) -> int | None:
    """The number of an allowed call; None where the machine has none."""
    return _NUMBERS[call][MACHINES.index(machine)]


def allowed_ranges(machine: str) -> list[tuple[int, int]]:
    """The allowed numbers as ranges, ascending: the first number, and the one behind the last."""
    numbers = sorted(n for each in _NUMBERS.values() if (n := each[MACHINES.index(machine)]) is not None)
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return ranges
