/* What a library of Windows has beside its functions, without the C runtime. */
int _fltused = 1; /* by this name compilers say that there is floating point */

__attribute__((visibility("hidden"))) int DllMainCRTStartup(void *library, unsigned reason, void *reserved) {
  (void)library, (void)reason, (void)reserved;
  return 1;
}

#if defined(__x86_64__)
/* Touches each page of a large frame, whose size is in rax, for a stack grows by the page. */
__asm__(
    ".globl ___chkstk_ms\n"
    "___chkstk_ms:\n"
    "  push %rcx\n"
    "  push %rax\n"
    "  lea 24(%rsp), %rcx\n"
    "1: cmp $0x1000, %rax\n"
    "  jb 2f\n"
    "  sub $0x1000, %rcx\n"
    "  orl $0, (%rcx)\n"
    "  sub $0x1000, %rax\n"
    "  jmp 1b\n"
    "2: sub %rax, %rcx\n"
    "  orl $0, (%rcx)\n"
    "  pop %rax\n"
    "  pop %rcx\n"
    "  ret\n");
#endif
