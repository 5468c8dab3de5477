"""Prompts go where their beginning is cached, in turn where nothing is, and never to a replica that is far busier."""

from mh_train.engine.vllm_router import BLOCK, SLACK, Router

STATIC = tuple(range(BLOCK))


def episode(number: int, turns: int) -> tuple[int, ...]:
    """A prompt that begins like all others and then like its episode's earlier ones."""
    return (*STATIC, *(1000 * number + i for i in range(BLOCK * turns)))


def test_new_episodes_take_turns_and_later_turns_follow_their_cache():
    router = Router(3)
    homes = [router.choose(episode(number, 1), range(3)) for number in range(6)]
    assert homes == [0, 1, 2, 0, 1, 2]
    for turns in (2, 3):
        assert [router.choose(episode(number, turns), range(3)) for number in range(6)] == homes


def test_a_busy_replica_gives_way():
    router = Router(2)
    home = router.choose(episode(7, 1), range(2))
    router.loads[home] = SLACK + 1
    assert router.choose(episode(7, 2), range(2)) != home


def test_a_dead_replica_is_left_out_and_new_weights_empty_the_caches():
    router = Router(2)
    home = router.choose(episode(1, 1), range(2))
    assert router.choose(episode(1, 2), [1 - home]) == 1 - home
    router.forget()
    first = router.choose(episode(1, 3), range(2))
    assert router.choose(episode(1, 3), range(2)) == first
