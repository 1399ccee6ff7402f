"""A handler waits for a coroutine that its own event loop would have to run."""
# expect: hung deadlock
import asyncio
import os
from kit import blame, ready


async def answer():
    return 1


async def handle():
    loop = asyncio.get_running_loop()
    return asyncio.run_coroutine_threadsafe(answer(), loop).result()


blame(pid=os.getpid())
ready()
asyncio.run(handle())
