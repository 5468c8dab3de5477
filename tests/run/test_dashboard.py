"""The live view shows what matters on a terminal, and one line per update in a log."""

import io

from rich.console import Console

from mh_train.run.dashboard import dashboard

VALUES = {
    "env/success": 0.25,
    "reward/mean": 2.6,
    "memory/retrievals": 1.0,
    "memory/accepted": 0.5,
    "memory/rejected": 0.25,
    "memory/active": 12.0,
    "learn/entropy": 0.4,
    "time/tokens_per_s": 1234.0,
    "time/update_s": 2.0,
}


def test_a_terminal_shows_progress_success_memory_bank_speed_and_time_left():
    screen = io.StringIO()
    with dashboard("grpo", 3, console=Console(file=screen, force_terminal=True, width=100)) as shown:
        shown.advance(VALUES)
        shown.advance({**VALUES, "env/success": 0.75})
    told = screen.getvalue().split("grpo")[-1]
    for expected in ("2/3", "left", "75.0%", "0.50 accepted, 0.25 rejected", "12 active", "1,234 tokens/s", "▁█"):
        assert expected in told


def test_a_log_gets_one_line_per_update_of_what_there_is(capsys):
    with dashboard("grpo", 5, begun=3) as shown:
        shown.advance(VALUES)
        shown.advance({"env/success": 1.0})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("grpo 4/5  success 0.25  reward 2.6  asks 1  used 0.5  bank 12  entropy 0.4")
    assert second.startswith("grpo 5/5  success 1  left 0 min")
