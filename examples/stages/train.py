"""A job with stages: nested, in two asyncio tasks at once, and one that fails."""
import asyncio
import time

from taskscope_stage import stage


@stage("load data")
def load():
    return bytearray(64 << 20)


async def download(part):
    with stage("download %d" % part):
        await asyncio.sleep(0.5 + part / 4)


async def download_all():
    await asyncio.gather(*(download(part) for part in range(3)))


data = load()
with stage("prepare"):
    asyncio.run(download_all())
with stage("fit"):
    for epoch in range(3):
        with stage("epoch"):
            time.sleep(0.5)
        try:
            with stage("evaluate"):
                raise ValueError("no metric")
        except ValueError:
            pass
