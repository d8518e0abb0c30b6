/* What a library of Windows has beside its functions, without the C runtime. */
int _fltused = 1; /* by this name compilers say that there is floating point */

__attribute__((visibility("hidden"))) int DllMainCRTStartup(void *library, unsigned reason, void *reserved) {
  (void)library, (void)reason, (void)reserved;
  return 1;
}
