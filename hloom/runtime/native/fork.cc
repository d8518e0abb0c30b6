// A list of mutexes, which a fork locks before and unlocks after.
#include "fork.h"

#include <stdlib.h>

namespace hloom {
namespace {

struct Node {
  pthread_mutex_t* mutex;
  Node* next;
};

pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
Node* list = nullptr;
pthread_once_t once = PTHREAD_ONCE_INIT;

void before() {
  pthread_mutex_lock(&list_mutex);
  for (Node* node = list; node != nullptr; node = node->next) pthread_mutex_lock(node->mutex);
}

void after() {
  for (Node* node = list; node != nullptr; node = node->next) pthread_mutex_unlock(node->mutex);
  pthread_mutex_unlock(&list_mutex);
}

void watch() { pthread_atfork(before, after, after); }

}  // namespace

void free_in_forks(pthread_mutex_t* mutex) {
  Node* node = static_cast<Node*>(malloc(sizeof(Node)));
  if (node == nullptr) return;  // without memory it is as it would be without this
  pthread_once(&once, watch);
  pthread_mutex_lock(&list_mutex);
  *node = {mutex, list};
  list = node;
  pthread_mutex_unlock(&list_mutex);
}

}  // namespace hloom
