#include "mem/map.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void map__both_halves_are_the_same_bytes(void **state)
{
    (void)state;
    const size_t bytes = 8192;
    unsigned char *at = map_ring_alloc(bytes);
    assert_non_null(at);
    for (size_t i = 0; i < 2 * bytes; i++)
        assert_int_equal(at[i], 0);
    memset(at + bytes - 8, 7, 16); /* over the seam */
    __asm__ __volatile__("" ::: "memory");
    assert_int_equal(at[0], 7);
    assert_int_equal(at[7], 7);
    assert_int_equal(at[8], 0);
    assert_int_equal(at[2 * bytes - 1], 7);
    map_ring_free(at, bytes);
}

static void map__mirrors_a_range_of_a_file(void **state)
{
    (void)state;
    int fd = memfd_create("map", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 3 * 4096), 0);
    assert_int_equal(pwrite(fd, "tram", 4, 4096), 4);
    const char *at = map_mirror(fd, 4096, 4096, PROT_READ);
    assert_non_null(at);
    assert_memory_equal(at, "tram", 4);
    assert_memory_equal(at + 4096, "tram", 4);
    map_unmirror((void *)(uintptr_t)at, 4096);
    close(fd);
}

static void map__says_why_it_cannot(void **state)
{
    (void)state;
    errno = 0;
    assert_null(map_ring_alloc(0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(map_mirror(-1, 0, 4096, PROT_READ));
    assert_int_equal(errno, EBADF);
    map_ring_free(NULL, 4096);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(map__both_halves_are_the_same_bytes),
        cmocka_unit_test(map__mirrors_a_range_of_a_file),
        cmocka_unit_test(map__says_why_it_cannot),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
