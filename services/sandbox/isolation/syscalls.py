"""The system calls that programs may make.

Names that a machine's table lacks are passed over (older calls that the arm64 kernel never had).
A call that stands in none of these lists is answered with ENOSYS, so that the C library and
language runtimes take the older way: clone3 becomes clone, whose flags can be looked at.
"""

_FILES = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
    open openat openat2 creat close close_range lseek dup dup2 dup3 pipe pipe2
    fcntl flock ftruncate truncate fallocate fadvise64 readahead sync_file_range
    copy_file_range sendfile splice tee fsync fdatasync
    stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2
    getdents getdents64 getcwd chdir fchdir readlink readlinkat
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
    link linkat symlink symlinkat chmod fchmod fchmodat chown fchown lchown fchownat umask
    utime utimes utimensat futimesat
    getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr
    listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
    inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
"""
_WAITING = """
    select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
"""
_SOCKETS = """
    connect bind listen accept accept4 shutdown getsockname getpeername getsockopt setsockopt
    sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
"""
_MEMORY = """
    mmap mprotect munmap mremap msync madvise mincore brk mlock mlock2 munlock mlockall munlockall
    membarrier pkey_alloc pkey_free pkey_mprotect mbind get_mempolicy set_mempolicy
"""
_PROCESSES = """
    fork vfork execve execveat exit exit_group wait4 waitid pidfd_open pidfd_send_signal
    kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn
    sigaltstack pause restart_syscall
    futex futex_waitv set_robust_list get_robust_list set_tid_address rseq
    arch_prctl set_thread_area get_thread_area
    gettid getpid getppid getpgid getpgrp getsid setpgid setsid
    getuid geteuid getgid getegid getresuid getresgid getgroups capget capset
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
    getrlimit setrlimit getrusage getpriority setpriority ioprio_get ioprio_set times
    sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getattr
    sched_setattr sched_getscheduler sched_setscheduler sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval getcpu
"""
_CLOCKS_AND_FACTS = """
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm
    getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    uname sysinfo getrandom
"""
ALLOWED = frozenset(
    name
    for group in (_FILES, _WAITING, _SOCKETS, _MEMORY, _PROCESSES, _CLOCKS_AND_FACTS)
    for name in group.split()
)

_WITHOUT_A_FILE = """
    shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    memfd_create
"""
PRIVATE_IPC = frozenset(_WITHOUT_A_FILE.split())
"""Memory and queues that belong to no process and no file: only where a namespace ends them with
the run and a control group counts them."""

_ADMINISTRATION = """
    unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount
    fspick mount_setattr open_by_handle_at name_to_handle_at fanotify_init fanotify_mark
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
    bpf perf_event_open userfaultfd keyctl add_key request_key
    init_module finit_module delete_module kexec_load kexec_file_load reboot
    swapon swapoff quotactl quotactl_fd acct syslog vhangup
    sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex
    iopl ioperm move_pages migrate_pages
"""
REFUSED = frozenset(_ADMINISTRATION.split())
"""Calls that programs expect to be for the administrator alone: answered with EPERM."""

WITHOUT_EFFECT = frozenset({"sync", "syncfs"})
"""Answered with success: nothing of a run outlives it, and the disks are not a program's to hold
up."""
