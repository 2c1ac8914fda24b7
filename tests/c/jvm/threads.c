/* SPDX-License-Identifier: Apache-2.0
 *
 * Case P9: 200 threads open, append, close and end in a process that has a JVM, which half of them were attached to before. The library
 * attaches and detaches nobody, and leaves neither threads nor memory behind. The argument is how often; the whole case is 50.
 */
#define _POSIX_C_SOURCE 200809L
#include "../files.h"
#include <jni.h>

#define BUCKET "/threads/bucket"

enum { THREADS = 200, RECORD = 7 };

static JavaVM *vm;
static int rounds;

/* A number of this process as Linux tells it, or -1. */
static long status_of(const char *name)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    long number = -1;

    while (status != NULL && number < 0 && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            number = atol(line + strlen(name) + 1);
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return number;
}

/* Threads that the JVM knows. */
static jint java_threads(void)
{
    JNIEnv *env;
    jint count;

    CHECK((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) == JNI_OK);
    jclass thread = (*env)->FindClass(env, "java/lang/Thread");
    jmethodID current = (*env)->GetStaticMethodID(env, thread, "activeCount", "()I");
    count = (*env)->CallStaticIntMethod(env, thread, current);
    CHECK(!(*env)->ExceptionCheck(env));
    (*env)->DeleteLocalRef(env, thread);
    return count;
}

static void *work(void *argument)
{
    int number = (int)(intptr_t)argument, attached = number % 2 == 0;
    int64_t failures = 0;
    append_writer *writer;
    append_fs *mine = fs;
    JNIEnv *env = NULL, *now = NULL;
    char path[64];

    snprintf(path, sizeof path, BUCKET "/f%d", number);
    if (attached) {
        failures += (*vm)->AttachCurrentThread(vm, (void **)&env, NULL) != JNI_OK;
    }
    if (number % 20 == 1) {
        mine = append_fs_connect(server(), NULL, NULL, NULL);
        failures += mine == NULL;
    }
    writer = append_fs_append(mine, path, NULL, NULL, NULL);
    failures += writer == NULL;
    failures += append_writer_write(writer, "record\n", RECORD, NULL, NULL) != RECORD;
    failures += append_writer_close(writer, NULL, NULL) != 0;
    if (mine != fs) {
        failures += append_fs_disconnect(mine, NULL) != 0;
    }
    failures += (*vm)->GetEnv(vm, (void **)&now, JNI_VERSION_1_8) != (attached ? JNI_OK : JNI_EDETACHED);
    failures += attached && now != env;
    if (attached) {
        failures += (*vm)->DetachCurrentThread(vm) != JNI_OK;
    }
    return (void *)(intptr_t)failures;
}

static void a_round(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failures = NULL;
        CHECK(pthread_join(threads[i], &failures) == 0 && failures == NULL);
    }
}

static void p9_threads_that_the_jvm_owns(void)
{
    long threads, memory;
    jint java = java_threads();
    char path[64];

    for (int i = 0; i < THREADS; i++) {
        snprintf(path, sizeof path, BUCKET "/f%d", i);
        write_file(path, "", 0);
    }
    /* What is made at first use and stays. */
    a_round();
    threads = status_of("Threads");
    memory = status_of("VmRSS");
    for (int i = 0; i < rounds; i++) {
        a_round();
    }
    CHECK(java_threads() == java);
    printf("threads %ld, then %ld; memory %ld KiB, then %ld KiB\n", threads, status_of("Threads"), memory, status_of("VmRSS"));
    CHECK(threads > 0 && status_of("Threads") < threads + THREADS / 4);
    /* A thread that is left, or its stream, takes more than this each. */
    CHECK(memory > 0 && status_of("VmRSS") - memory < (rounds > 10 ? rounds : 10) * THREADS * 8 + 64 * 1024);
    for (int i = 0; i < THREADS; i++) {
        snprintf(path, sizeof path, BUCKET "/f%d", i);
        CHECK(length_of(path) == (rounds + 1) * RECORD);
    }
}

static void tests(void)
{
    RUN(p9_threads_that_the_jvm_owns);
}

int main(int argc, char **argv)
{
    JavaVMOption options[] = {{.optionString = "-Xcheck:jni"}, {.optionString = "-Xmx64m"}};
    JavaVMInitArgs args = {.version = JNI_VERSION_1_8, .nOptions = 2, .options = options};
    JNIEnv *env;
    int failed;

    rounds = argc > 1 ? atoi(argv[1]) : 1;
    if (JNI_CreateJavaVM(&vm, (void **)&env, &args) != JNI_OK) {
        printf("no JVM\n0 passed, 1 failed\n");
        return 1;
    }
    failed = all(1, argv, BUCKET, tests);
    (*vm)->DestroyJavaVM(vm);
    return failed;
}
